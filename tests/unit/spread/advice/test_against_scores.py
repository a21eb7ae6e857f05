# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The advice for a workload whose new pods the scores of the scheduler do not spread."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Advice
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.predictor import RestartPredictor
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport

from tests.unit.support.cluster import ClusterBuilder, Json, workers

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
AVOIDED = [{"key": "spot", "effect": "PreferNoSchedule"}]
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
WITH_ITSELF = {"weight": 1, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}}
PREFERS_OTHER_PODS = {"spec": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [WITH_ITSELF]}}}}
PREFERS_SSD = {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}}}


def checked(cluster: ClusterBuilder, **options: t.Any) -> WorkloadReport:
    snapshot = cluster.snapshot()
    return WorkloadChecker(snapshot, CheckOptions(**options)).check(snapshot.workloads()[0])


def advised(report: WorkloadReport) -> Advice:
    """The advice for a workload that the scores do not spread. A check with a false prediction has it once."""
    assert report.prediction is not None and report.prediction.restart_helps is False
    assert [blocker.reason.code for blocker in report.prediction.blockers] == ["scoring_does_not_spread"]
    (advice,) = [advice for advice in report.advice if advice.reason.code == "scoring_does_not_spread"]
    return advice


def constraints_in(patch: t.Mapping[str, t.Any]) -> dict[str, str]:
    entries: list[Json] = patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    return {entry["topologyKey"]: entry["whenUnsatisfiable"] for entry in entries}


def workers_with_web(template: Json | None = None) -> ClusterBuilder:
    """A collapsed Deployment on one of two equal nodes."""
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, template=template, selector={"matchLabels": {"app": "web"}})
    return cluster


def one_node_is_preferred() -> ClusterBuilder:
    """A collapsed Deployment. Its pods prefer the node on which they are, and a soft constraint of their own is stronger."""
    cluster = ClusterBuilder()
    cluster.node("fast", labels={"disk": "ssd"})
    cluster.node("slow")
    cluster.deployment("web", ["fast"] * 2, template=PREFERS_SSD, selector={"matchLabels": {"app": "web"}})
    return cluster


def other_nodes_are_avoided(replicas: int = 2, **node: t.Any) -> ClusterBuilder:
    """A collapsed Deployment. The other node has a taint that outweighs each soft constraint: 3 x 100 against 2 x 100."""
    cluster = ClusterBuilder()
    cluster.node("worker-1", labels={ZONE: "a"})
    cluster.node("worker-2", labels={ZONE: "b"}, taints=AVOIDED, **node)
    cluster.deployment("web", ["worker-1"] * replicas, selector={"matchLabels": {"app": "web"}})
    return cluster


def changed_by(patch: t.Mapping[str, t.Any], cluster: ClusterBuilder) -> ClusterBuilder:
    """The cluster with the constraints of the patch in the pod template of its Deployment."""
    (workload,) = cluster.deployments
    template = decode_json(Workload, encode_json(patch)).spec.template
    spec = replace(workload.spec.template.spec, topology_spread_constraints=template.spec.topology_spread_constraints)
    changed = replace(workload.spec.template, spec=spec)
    cluster.deployments[:] = [replace(workload, spec=replace(workload.spec, template=changed))]
    return cluster


def test_hard_constraint_is_advised_where_a_soft_one_would_not_be_enough() -> None:
    advice = advised(checked(other_nodes_are_avoided()))
    # The check judges nodes. The constraint over zones only replaces a default constraint of the scheduler.
    assert constraints_in(advice.patch) == {HOST: "DoNotSchedule", ZONE: "ScheduleAnyway"}
    assert "a soft constraint would not" in advice.reason.text and "stays pending" in advice.reason.text
    after = checked(changed_by(advice.patch, other_nodes_are_avoided()))
    assert after.prediction is not None and after.prediction.restart_helps is True


def test_all_judged_keys_become_hard() -> None:
    advice = advised(checked(other_nodes_are_avoided(), topology_keys=[ZONE, HOST]))
    assert constraints_in(advice.patch) == {ZONE: "DoNotSchedule", HOST: "DoNotSchedule"}


def test_soft_constraint_that_is_added_already_is_not_advised_again() -> None:
    advice = advised(checked(other_nodes_are_avoided(), add_constraints=True))
    assert constraints_in(advice.patch)[HOST] == "DoNotSchedule"


@pytest.mark.parametrize("add", [True, False])
def test_advice_without_a_constraint_that_helps_has_no_patch_and_says_so(add: bool) -> None:
    # The other node takes one of four pods. A hard constraint leaves the fourth one pending.
    advice = advised(checked(other_nodes_are_avoided(4, allocatable={"cpu": "4", "memory": "16Gi", "pods": "1"}), add_constraints=add))
    assert advice.patch == {}
    assert f"no spread constraint over {HOST}, {ZONE} is certain to change that" in advice.reason.text


def test_soft_constraint_is_advised_where_it_is_enough() -> None:
    advice = advised(checked(one_node_is_preferred()))
    assert constraints_in(advice.patch) == {HOST: "ScheduleAnyway"}
    after = checked(changed_by(advice.patch, one_node_is_preferred()))
    assert after.prediction is not None and after.prediction.restart_helps is True


def test_workload_that_has_all_constraints_gets_no_advice_to_add_one() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    cluster = other_nodes_are_avoided()
    cluster.deployments.clear()
    cluster.pods.clear()
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"topologySpreadConstraints": [constraint]}})
    report = checked(cluster)
    assert report.prediction is not None and report.prediction.restart_helps is False
    assert report.advice == ()


@pytest.mark.parametrize(
    ("cluster", "options", "predictions"),
    [
        pytest.param(workers_with_web(), {}, 1, id="a restart helps"),
        pytest.param(workers_with_web(), {"predict": False}, 0, id="without predictions"),
        pytest.param(one_node_is_preferred(), {}, 2, id="soft constraint"),
        pytest.param(other_nodes_are_avoided(), {}, 3, id="hard constraint"),
        pytest.param(other_nodes_are_avoided(), {"add_constraints": True}, 2, id="hard constraint, the soft one is predicted already"),
    ],
)
def test_only_workloads_that_the_scores_do_not_spread_are_predicted_again(
    cluster: ClusterBuilder, options: Json, predictions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Workload] = []
    predict = RestartPredictor.predict

    def counted(self: RestartPredictor, workload: Workload, *rest: t.Any) -> t.Any:
        calls.append(workload)
        return predict(self, workload, *rest)

    monkeypatch.setattr(RestartPredictor, "predict", counted)
    checked(cluster, **options)
    assert len(calls) == predictions


@pytest.mark.parametrize(
    ("cluster", "options", "explained"),
    [
        pytest.param(one_node_is_preferred(), {}, True, id="the scores do not spread the pods"),
        pytest.param(one_node_is_preferred(), {"predict": False}, True, id="without predictions"),
        pytest.param(one_node_is_preferred(), {"add_constraints": True}, False, id="a restart with constraints helps"),
        pytest.param(workers_with_web(PREFERS_OTHER_PODS), {"add_constraints": True}, False, id="the same for a preferred pod affinity"),
    ],
)
def test_preferred_affinity_is_no_advice_if_a_restart_helps(cluster: ClusterBuilder, options: Json, explained: bool) -> None:
    report = checked(cluster, **options)
    assert ("preference_outweighs" in {advice.reason.code for advice in report.advice}) is explained
    if not explained:
        assert report.prediction is not None and report.prediction.restart_helps is True
