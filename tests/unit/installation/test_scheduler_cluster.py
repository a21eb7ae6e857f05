# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The obstacles that a cluster has for extended_scheduler. tests/integration/roles has the same with a real API server."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules.scheduler_cluster import mistakes, remarks

CLUSTER: dict[str, Any] = {"node_names": ["cp-1"], "node_labels": ["role/scheduler"], "marked": [], "missing_files": []}
SECRET = {"kind": "Secret", "name": "login", "key": "token"}
GOOD: dict[str, Any] = {
    "extended_scheduler_state": "present",
    "extended_scheduler_shape": "second_scheduler",
    "extended_scheduler_namespaces": "",
    "extended_scheduler_node_label": "role/scheduler",
    "__extended_scheduler_has_policies": "False",
    "__extended_scheduler_version": "1.35.0",
    "__extended_scheduler_policy_version": "1.36",
    "__extended_scheduler_cluster": CLUSTER,
    "__extended_scheduler_files": {"scrapes_nodes": True},
    "__extended_scheduler_namespace": "kube-system",
    "__extended_scheduler_users": None,
    "__extended_scheduler_is_forced": "False",
    "__extended_scheduler_dropped": ["web"],
    "__extended_scheduler_all_errors": [],
    "__extended_scheduler_plan": None,
}


def found(**changes: Any) -> list[str]:
    return list(mistakes(GOOD | {name if name in GOOD else f"extended_scheduler_{name}": value for name, value in changes.items()}))


def marked(*shapes: str) -> dict[str, Any]:
    return with_cluster(marked=[{"shape": shape, "what": f"{shape} is installed"} for shape in shapes])


def with_cluster(**changes: Any) -> dict[str, Any]:
    return {"__extended_scheduler_cluster": CLUSTER | changes}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"namespaces": "a/b"},
            "extended_scheduler_namespaces is set, and Kubernetes is 1.35.0: a MutatingAdmissionPolicy needs 1.36 or later",
        ),
        ({"node_label": "x"}, "no node has the label x: set extended_scheduler_node_label"),
        (with_cluster(node_names=["cp-1"] * 201), "the cluster has 201 nodes, and an extender reads"),
        (marked("kubeadm"), "kubeadm is installed, and two schedulers must not have the same profile: remove it first"),
        (
            {"state": "absent", "shape": "systemd", "__extended_scheduler_all_errors": [], **marked("kubeadm")},
            "kubeadm is installed, and extended_scheduler_shape is systemd: set it to kubeadm to remove that",
        ),
        ({"shape": "kubeadm", "__extended_scheduler_all_errors": ["cp-1 is lost"]}, "cp-1 is lost"),
        (
            {"__extended_scheduler_users": {"users": ["Pod a/b"]}},
            "web would be removed, and 1 pods or workloads would wait for it: Pod a/b: give",
        ),
        (
            with_cluster(missing_files=[{**SECRET, "exists": False}]),
            "the settings name a file of Secret kube-system/login, which does not exist: create it with the key token",
        ),
        (
            with_cluster(missing_files=[{**SECRET, "exists": True}]),
            "the settings name the key token of Secret kube-system/login, which it does not have",
        ),
    ],
)
def test_each_obstacle_is_named(changes: dict[str, Any], text: str) -> None:
    (sentence,) = found(**changes)
    assert sentence.startswith(text), sentence


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"namespaces": "a/b", "__extended_scheduler_has_policies": "True"},
        {"shape": "kubeadm", "node_label": "x", "__extended_scheduler_all_errors": []},
        {"shape": "systemd", "__extended_scheduler_all_errors": [], **marked("kubeadm", "systemd")},
        {"state": "absent", "shape": "kubeadm", "__extended_scheduler_all_errors": [], **marked("kubeadm", "systemd")},
        {"__extended_scheduler_users": {"users": ["Pod a/b"]}, "__extended_scheduler_is_forced": True},
        {"__extended_scheduler_users": {"skipped": True}},
    ],
)
def test_what_fits_has_no_sentence(changes: dict[str, Any]) -> None:
    assert found(**changes) == []


def test_two_schedulers_and_the_change_of_one_are_remarks() -> None:
    plan = {"__extended_scheduler_plan": {"warnings": ["There is a gap."]}}
    assert "each other's nominations" in "".join(remarks(GOOD))
    assert remarks(GOOD | plan | {"extended_scheduler_shape": "kubeadm"}) == ["There is a gap."]
    assert remarks(GOOD | {"extended_scheduler_state": "absent"}) == []
