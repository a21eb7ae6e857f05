# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Free capacity on nodes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.device import DeviceClass, DeviceClassSpec

from tests.unit.support.cluster import codes, feasibility_of
from tests.unit.support.objects import container, node, pod


@pytest.mark.parametrize(
    ("used", "wanted", "allocatable", "expected"),
    [
        ({"cpu": "3"}, {"cpu": "1"}, {}, []),
        ({"cpu": "3"}, {"cpu": "1001m"}, {}, ["insufficient_cpu"]),
        ({"memory": "8Gi"}, {"memory": "1"}, {}, ["insufficient_memory"]),
        ({"cpu": "5"}, {"memory": "1Gi"}, {}, []),
        ({"cpu": "5"}, {"cpu": "0"}, {}, []),
        (
            {"cpu": "4"},
            {"cpu": "1", "memory": "9Gi", "ephemeral-storage": "1Ti"},
            {},
            ["insufficient_cpu", "insufficient_memory", "insufficient_ephemeral_storage"],
        ),
        ({}, {"example.com/gpu": "1"}, {}, ["insufficient_example.com/gpu"]),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, {"example.com/gpu": "2"}, []),
        ({"example.com/gpu": "2"}, {"example.com/gpu": "1"}, {"example.com/gpu": "2"}, ["insufficient_example.com/gpu"]),
        ({}, {"example.com/gpu": "0"}, {}, []),
        ({}, {"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}, ["insufficient_hugepages_2Mi"]),
        ({}, {}, {"pods": "1"}, ["too_many_pods"]),
        ({}, {"cpu": "5"}, {"pods": "1"}, ["too_many_pods", "insufficient_cpu"]),
        ({}, {}, {"pods": "0"}, ["too_many_pods"]),
    ],
)
def test_all_that_is_missing_is_named(used: t.Any, wanted: t.Any, allocatable: t.Any, expected: list[str]) -> None:
    assert codes(pod(wanted), node(allocatable=allocatable), [pod(used, on="node-1")]) == expected


@pytest.mark.parametrize(("phase", "expected"), [("Running", 1), ("Pending", 1), ("Unknown", 1), ("Succeeded", 0), ("Failed", 0)])
def test_only_finished_pods_use_no_capacity(phase: str, expected: int) -> None:
    other = pod({"cpu": "4"}, on="node-1", status={"phase": phase})
    assert len(codes(pod({"cpu": "1"}), node(), [other])) == expected


def test_a_node_without_pod_capacity_takes_none() -> None:
    bare = node(allocatable={"pods": "0"})
    assert feasibility_of(pod(), [bare]).counts()[0][0].text == "Too many pods"


def test_reasons_carry_the_scheduler_s_text() -> None:
    found = feasibility_of(pod({"example.com/gpu": "1"}), [node()])
    assert [reason.text for reason, _count in found.counts()] == ["Insufficient example.com/gpu"]


def test_the_status_of_a_pod_that_comes_in_does_not_count() -> None:
    status = {"phase": "Pending", "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]}
    assert codes(pod(containers=[container({"cpu": "1"}, name="main")], status=status), node()) == []


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("classes", "allocatable", "used", "expected"),
    [
        (["example.com/gpu"], {}, {}, "device_class"),
        (["example.com/gpu"], {GPU: "0"}, {}, "device_class"),
        (["example.com/gpu"], {GPU: "2"}, {}, "feasible"),
        (["example.com/gpu"], {GPU: "1"}, {GPU: "1"}, "insufficient_example.com/gpu"),
        (["example.com/nic", ""], {}, {}, "insufficient_example.com/gpu"),
        ([], {}, {}, "insufficient_example.com/gpu"),
        (None, {}, {}, "deviceclasses_not_readable"),
        (None, {GPU: "2"}, {}, "feasible"),
    ],
)
def test_devices_that_a_class_may_offer_are_unknown(classes: list[str] | None, allocatable: t.Any, used: t.Any, expected: str) -> None:
    known = None if classes is None else [DeviceClass(spec=DeviceClassSpec(extended_resource_name=name)) for name in classes]
    found = feasibility_of(pod({GPU: "1"}), [node(allocatable=allocatable)], [pod(used, on="node-1")], device_classes=known)
    (answer,) = (*found.rejected.values(), *found.unknown_nodes.values()) or ("feasible",)
    assert answer == "feasible" or [reason.code for reason in answer] == [expected]
    assert (answer == "feasible") == (found.feasible == ("node-1",)) == (expected == "feasible")


@pytest.mark.parametrize(
    ("requests", "needs", "expected"),
    [
        ({"cpu": "9"}, {}, "insufficient_cpu"),
        # The scheduler asks for features after devices: where these are lacking as well it names them, which cannot be known here.
        ({}, {"hostNetwork": True, "hostUsers": False}, "node_declared_features"),
    ],
)
def test_a_node_that_lacks_something_else_is_out_nevertheless(requests: t.Any, needs: t.Any, expected: str) -> None:
    classes = [DeviceClass(spec=DeviceClassSpec(extended_resource_name=GPU))]
    found = feasibility_of(pod({GPU: "1", **requests}, **needs), [node()], device_classes=classes)
    assert [reason.code for reason in found.rejected["node-1"]] == [expected]
