# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order over sets of victims, step by step."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ManagedFieldsEntry
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Job
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.eviction_filter import node_pod_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.victims.node_pod import NodePod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.victims.victim_costs import VictimCosts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_info import PodLoad

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import affinity_term, anti_affinity, claim, job, mounts, node, pod_affinity, running, stored, volume

HOST = "kubernetes.io/hostname"
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
IGNORE, COUNT = {"action": "Ignore", **DISRUPTED}, {"action": "Count", **DISRUPTED}
OTHER = {"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue"}]}


def costs(pods: t.Iterable[Pod], *, cpu: str = "4", nodes: t.Sequence[str] = ("a-1", "a-2", "b-1"), **snapshot: t.Any) -> VictimCosts:
    made = [node(name, labels={HOST: name, "zone": name[0]}, allocatable={"cpu": cpu}) for name in nodes]
    return costs_in(ClusterState.of(snapshot_of(nodes=made, pods=pods, **snapshot)))


def costs_in(cluster_state: ClusterState) -> VictimCosts:
    """The costs in a cluster state."""
    return VictimCosts(cluster_state)


def node_pods(*pods: Pod) -> list[NodePod]:
    """The pods as pods of their nodes."""
    return [node_pod_of(pod, PodLoad.of(pod), RescueOptions()) for pod in pods]


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
WEB = [running("b-1", owner="web", name=f"web-{number}") for number in range(4)]
DB = [running("b-1", owner="db", name=f"db-{number}") for number in range(2)]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param([{"priority": 5}, {"priority": 5}], [{"priority": 6}], id="lowest highest priority"),
        pytest.param([{"priority": 5}, {"priority": 1}], [{"priority": 5}, {"priority": 2}], id="lowest sum"),
        pytest.param([{"priority": 5}], [{"priority": 5}, {"priority": -(2**31)}], id="fewest victims"),
        pytest.param([{"owner": "db"}], [{"owner": "job", "kind": "Job"}], id="no Job whose failures count"),
        pytest.param([{"owner": "db"}], [{"annotations": {"scheduling.k8s.io/group-name": "g"}}], id="no gang by annotation"),
        pytest.param([{"owner": "db"}], [{"labels": {"scheduling.x-k8s.io/pod-group": "g"}}], id="no gang by label"),
        pytest.param([{"owner": "db"}], [{"schedulingGroup": {"podGroupName": "g"}}], id="no scheduling group"),
        pytest.param([{"owner": "db", "cpu": "1"}], [{"cpu": "2"}], id="a replacement that fits elsewhere"),
        pytest.param([{"owner": "web", "created": OLD}], [{"owner": "db", "created": NEW}], id="more ready siblings"),
        pytest.param([{"created": NEW}], [{"created": OLD}], id="youngest"),
        pytest.param([{"created": NEW}, {"created": NEW}], [{"created": NEW}, {"created": OLD}], id="youngest of several"),
        pytest.param([{"name": "aa"}], [{"name": "bb"}], id="by name"),
    ],
)
def test_each_step_breaks_the_ties_of_those_before(better: t.Any, worse: t.Any) -> None:
    here = [
        [running("a-1", **({"name": f"v-{side}-{number}", "cpu": "10m"} | pod)) for number, pod in enumerate(pods)]
        for side, pods in enumerate((better, worse))
    ]
    judged = costs([*here[0], *here[1], *WEB, *DB, running("a-2", "4", name="filler"), running("b-1", "2200m", name="other")])
    assert judged.cost_of(node_pods(*here[0])) < judged.cost_of(node_pods(*here[1]))


def test_a_set_costs_more_than_its_subsets() -> None:
    pods = [running("a-1", owner=owner, priority=priority) for owner in ("web", "") for priority in (-(2**31), 0, 7)]
    judged = costs(pods)
    for number in range(len(pods)):
        assert judged.cost_of(node_pods(*pods[:number])) < judged.cost_of(node_pods(*pods[: number + 1]))


@pytest.mark.parametrize(
    ("jobs", "tied"),
    [
        ([], True),
        ([job("batch")], True),
        ([job("batch", OTHER)], True),
        ([job("batch", IGNORE)], False),
        ([job("batch", OTHER, IGNORE, COUNT)], False),
        ([job("batch", COUNT, IGNORE)], True),
        ([job("other", IGNORE)], True),
        ([job("batch", IGNORE, namespace="other")], True),
        ([Job()], True),
    ],
)
def test_job_pods_come_last_unless_disruptions_are_ignored(jobs: t.Any, tied: bool) -> None:
    pod = running("a-1", owner="batch", kind="Job")
    assert costs([pod], jobs=jobs).cost_of(node_pods(pod)).evicted_last == tied


@pytest.mark.parametrize(
    ("claims", "volumes", "tied"),
    [
        ([claim(to="disk")], [volume("disk", on="a-1")], True),
        ([claim(to="disk")], [volume("disk")], False),
        ([claim(to="gone")], [volume("disk")], True),
        ([claim()], [volume("disk")], True),
        ([], [volume("disk")], True),
        ([claim(to="disk")], None, True),
    ],
)
def test_a_claim_ties_a_pod_unless_its_volume_is_known_to_be_within_reach_of_others(claims: t.Any, volumes: t.Any, tied: bool) -> None:
    pod = running("a-1", namespace="default", volumes=[{"name": "tmp", "emptyDir": {}}, *mounts("data")])
    storage = stored(*volumes) if volumes is not None else None
    assert costs([pod], claims=claims, storage=storage).cost_of(node_pods(pod)).evicted_last == tied


def test_siblings_that_are_ready_and_stay_are_counted() -> None:
    pods = [running("a-1") for _number in range(3)]
    unready, ending = running("a-1", ready=False), running("a-1", metadata={"deletionTimestamp": OLD})
    judged = costs([*pods, unready, ending])
    sets = ([pods[0]], pods[:2], [unready], [unready, pods[0]])
    assert [judged.cost_of(node_pods(*some)).remaining_ready for some in sets] == [-2, -1, -3, -2]


def test_pods_of_another_namespace_with_the_uid_of_the_controller_are_no_siblings() -> None:
    """With them, the pods of the controller would look as if more of them stayed, and would be evicted first."""
    pod, forged = running("a-1"), [running("a-1", namespace="other") for _number in range(3)]
    judged = costs([pod, *forged])
    assert [judged.cost_of(node_pods(one)).remaining_ready for one in (pod, forged[0])] == [0, -2]
    assert [judged.remaining_ready(one) for one in node_pods(pod, forged[0])] == [0, 2]


def test_pods_that_have_left_the_cluster_state_are_no_siblings() -> None:
    pods = [running("a-1") for _number in range(3)]
    cluster_state = ClusterState.of(snapshot_of(nodes=[node("a-1")], pods=pods)).fork()
    cluster_state.remove(pods[0])
    assert costs_in(cluster_state).cost_of(node_pods(pods[1])).remaining_ready == -1


# --- replacements -------------------------------------------------------------------------------------------------------


def fits(pod: Pod, *others: Pod, cpu: str = "4") -> bool:
    made = [node(name, labels={HOST: name, "zone": name[0]}, allocatable={"cpu": cpu}) for name in ("a-1", "a-2", "b-1")]
    elsewhere = VictimCosts(ClusterState.of(snapshot_of(nodes=made, pods=[pod, *others])))
    assert elsewhere.may_fit(pod) or not elsewhere.fits_elsewhere(pod)
    return elsewhere.fits_elsewhere(pod)


WEB_LABELS = {"app": "web"}


@pytest.mark.parametrize(
    ("pod", "others", "expected"),
    [
        ({"cpu": "3"}, [], True),
        ({"cpu": "3"}, [("a-2", "2", {}), ("b-1", "2", {})], False),
        ({"cpu": "2"}, [("a-2", "2", {}), ("b-1", "3", {})], True),
        ({"cpu": "3"}, [("a-1", "1", {}), ("a-2", "4", {}), ("b-1", "4", {})], False),
        ({"cpu": "0"}, [("a-2", "4", {}), ("b-1", "4", {})], True),
        ({"requests": {"memory": "9Gi"}}, [], False),
        ({"nodeSelector": {"zone": "c"}}, [], False),
        ({"nodeSelector": {"zone": "b"}}, [], True),
        # The pod itself no longer keeps its replacement out of its zone, and is no longer near it.
        ({"labels": WEB_LABELS, "affinity": anti_affinity(WEB_LABELS, "zone")}, [("b-1", "4", {})], True),
        (
            {"labels": WEB_LABELS, "affinity": anti_affinity(WEB_LABELS, "zone")},
            [("b-1", "4", {}), ("a-2", "0", {"labels": WEB_LABELS})],
            False,
        ),
        ({"affinity": pod_affinity(affinity_term(WEB_LABELS, "zone"))}, [("a-1", "0", {"labels": WEB_LABELS})], True),
        ({"affinity": pod_affinity(affinity_term(WEB_LABELS))}, [("a-1", "0", {"labels": WEB_LABELS})], False),
        ({"labels": WEB_LABELS}, [(name, "0", {"affinity": anti_affinity(WEB_LABELS)}) for name in ("a-2", "b-1")], False),
    ],
)
def test_whether_a_replacement_fits_on_another_node(pod: t.Any, others: t.Any, expected: bool) -> None:
    assert fits(running("a-1", **pod), *(running(on, cpu, **more) for on, cpu, more in others)) is expected


@pytest.mark.parametrize(("zone", "fits_there"), [("b", True), ("c", False)])
def test_a_node_that_its_labels_close_has_no_capacity_for_a_replacement(zone: str, fits_there: bool) -> None:
    pod = running("a-1", nodeSelector={"zone": zone})
    made = [node(name, labels={HOST: name, "zone": name[0]}) for name in ("a-1", "b-1")]
    assert VictimCosts(ClusterState.of(snapshot_of(nodes=made, pods=[pod]))).may_fit(pod) is fits_there


def test_whether_the_replacement_of_a_resized_pod_fits_is_not_known() -> None:
    pod = running("a-1", "1")
    resize = ManagedFieldsEntry(subresource="resize")
    assert fits(pod) and not fits(replace(pod, metadata=replace(pod.metadata, managed_fields=(resize,))))


def test_pods_of_one_template_do_not_share_their_node() -> None:
    first = running("a-1", "3")
    second = running("a-2", "3")
    made = [node(name, labels={HOST: name}) for name in ("a-1", "a-2")]
    elsewhere = VictimCosts(ClusterState.of(snapshot_of(nodes=made, pods=[first, second, running("a-2", "1")])))
    assert not elsewhere.fits_elsewhere(first)
    assert not elsewhere.fits_elsewhere(second)
