# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A scheduler's profile adds affinity to the filters, and removes resources from them."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import NodeSelector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.profile import SchedulerProfile

from tests.unit.support.cluster import cluster_state
from tests.unit.support.objects import Json, node, node_affinity, pod


def fence(*terms: Json) -> SchedulerProfile:
    return SchedulerProfile(added_affinity=decode_json(NodeSelector, encode_json({"nodeSelectorTerms": list(terms)})))


IN_ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NAMED_2 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
NODES = [node("node-1", labels={"zone": "a"}), node("node-2", labels={"zone": "b"}), node("node-3")]


@pytest.mark.parametrize(
    ("profile", "spec", "feasible", "texts"),
    [
        (fence(IN_ZONE_A), {}, ["node-1"], {"node(s) didn't match scheduler-enforced node affinity"}),
        (fence(IN_ZONE_A, NAMED_2), {}, ["node-1", "node-2"], {"node(s) didn't match scheduler-enforced node affinity"}),
        # Both must hold, and what the profile adds is asked first.
        (fence(IN_ZONE_A), {"nodeSelector": {"zone": "b"}}, [], {
            "node(s) didn't match scheduler-enforced node affinity",
            "node(s) didn't match Pod's node affinity/selector",
        }),
        # Only the pod's own affinity leaves nodes out by name before any plugin is asked.
        (fence(NAMED_2), {}, ["node-2"], {"node(s) didn't match scheduler-enforced node affinity"}),
        (fence(IN_ZONE_A), {"affinity": node_affinity(NAMED_2)}, [], {
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            "node(s) didn't match scheduler-enforced node affinity",
        }),
    ],
)  # fmt: skip
def test_added_affinity_holds_beside_the_pod_s_own(profile: SchedulerProfile, spec: Json, feasible: list[str], texts: set[str]) -> None:
    found = find_feasible(pod(**spec), cluster_state(NODES), profiles={"default-scheduler": profile})
    assert list(found.feasible) == feasible
    assert {reason.text for reason, _count in found.counts()} == texts


@pytest.mark.parametrize(
    ("profile", "resource", "ignored"),
    [
        (SchedulerProfile(), "example.com/gpu", False),
        (SchedulerProfile(ignored_resources=frozenset({"example.com/gpu"})), "example.com/gpu", True),
        (SchedulerProfile(ignored_resources=frozenset({"example.com/gpu"})), "example.com/nic", False),
        (SchedulerProfile(ignored_resource_groups=frozenset({"example.com"})), "example.com/nic", True),
        (SchedulerProfile(ignored_resource_groups=frozenset({"example.com"})), "gpu.example.com/nic", False),
        # Only extended resources can be ignored.
        (SchedulerProfile(ignored_resources=frozenset({"cpu"})), "cpu", False),
        (SchedulerProfile(ignored_resources=frozenset({"hugepages-2Mi"})), "hugepages-2Mi", False),
        (SchedulerProfile(ignored_resource_groups=frozenset({"storage.kubernetes.io"})), "storage.kubernetes.io/slots", False),
    ],
)
def test_ignored_resources_need_not_be_there(profile: SchedulerProfile, resource: str, ignored: bool) -> None:
    found = find_feasible(pod({resource: "9"}), cluster_state([node()]), profiles={"default-scheduler": profile})
    assert bool(found.feasible) is ignored


def test_each_pod_is_judged_by_the_profile_of_its_scheduler() -> None:
    profiles = {"default-scheduler": SchedulerProfile(), "fenced": fence(IN_ZONE_A)}
    assert len(find_feasible(pod(), cluster_state(NODES), profiles=profiles).feasible) == 3
    assert find_feasible(pod(schedulerName="fenced"), cluster_state(NODES), profiles=profiles).feasible == ("node-1",)
    other = find_feasible(pod(schedulerName="other"), cluster_state(NODES), profiles=profiles)
    assert [reason.code for reason in other.unknown] == ["foreign_scheduler"]
