# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The held nodes are those with the taint of a hold, and the hash in its value finds the pod."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.held_nodes import HeldNode, held_nodes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import HOLD_ANNOTATION, Hold, hash_of, taint_json

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import node, pending, running

POD = pending(name="dns")
BOUND = running("n", name="web")
HOLD = Hold("CriticalAddonsOnly", hash_of(POD), 2_000_000_000)


def look(*pods: t.Any, hold: Hold = HOLD, without: Hold | None = None) -> dict[str, HeldNode]:
    held = node("n", taints=[{"key": "other", "effect": "NoSchedule"}, taint_json(hold.taint)])
    return held_nodes(snapshot_of(nodes=[held, node("m")], pods=pods), without={"n": without} if without is not None else {})


@pytest.mark.parametrize("pod", [POD, BOUND])
def test_the_hash_finds_the_pod_pending_or_bound(pod: t.Any) -> None:
    hold = HOLD._replace(pod_hash=hash_of(pod))
    (held,) = look(BOUND, POD, hold=hold).values()
    assert (held.node.name, held.hold, held.pod, held.uid) == ("n", hold, pod, pod.metadata.uid)
    assert held.pod_name == pod.metadata.full_name


def test_a_pod_with_the_same_name_is_another_pod() -> None:
    (held,) = look(pending(name="dns", metadata={"uid": "newer"})).values()
    assert held.pod is None and held.uid == held.pod_name == "" and held.pod_text == "a pod that is gone"


def test_a_hold_that_was_released_does_not_count_but_a_newer_one_does() -> None:
    assert look(POD, without=HOLD) == {}
    assert list(look(POD, without=HOLD._replace(deadline_s=1))) == ["n"]


def test_an_annotation_alone_is_no_hold() -> None:
    annotated = node("n", annotations={HOLD_ANNOTATION: "a note"})
    assert held_nodes(snapshot_of(nodes=[annotated], pods=[POD]), without={}) == {}
