# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kept pods are limited in their number and in the length of their texts."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine import recent_pods
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPod, RecentPods
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Demand, PodView


def recent(name: str, label: str = "") -> RecentPod:
    view = PodView("app", name, name, "quiet", {"x": label}, Demand())
    return RecentPod("app", name, name, "quiet", 1, 0.0, view)


def test_the_oldest_pods_are_dropped() -> None:
    pods = RecentPods()
    for number in range(1002):
        pods.add(recent(str(number)))
    found = [pod.name for pod in pods.newest()]
    assert (len(found), found[0], found[-1]) == (1000, "1001", "2")


def test_pods_with_long_labels_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_pods, "MAX_CHARACTERS", 1000)
    pods = RecentPods()
    for number in range(100):
        pods.add(recent(str(number), "y" * 300))
        pods.add(recent(str(number), "y" * 280))
    assert [pod.name for pod in pods.newest()] == ["99", "98", "97"]
    pods.add(recent("long", "y" * 2000))
    assert pods.newest() == []
    pods.add(recent("short"))
    assert [pod.name for pod in pods.newest()] == ["short"]
