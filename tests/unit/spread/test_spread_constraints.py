# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The spread constraints that a restart adds: their topology keys, their fields, the patch, and the pod that is predicted with them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, TopologySpreadConstraint
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import SchedulerProfile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.history import remembered_constraints
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.next_pod.next_pod import next_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import (
    RestartDecision,
    decide_restart,
    restart_patch,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import ADD, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_constraints import with_constraints
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import NOW, ClusterBuilder, Json, struct

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/rack"
SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}


def soft(key: str, **more: t.Any) -> Json:
    """A constraint of a user."""
    return {"maxSkew": 3, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}}, **more}


def cluster_with(*labels: str) -> ClusterBuilder:
    """Two nodes, the first with a zone and a rack, the second with these labels only."""
    cluster = ClusterBuilder()
    cluster.node("worker-1", labels={ZONE: "z1", RACK: "r1"})
    cluster.node("worker-2", labels={key: f"{key[-1]}2" for key in labels})
    return cluster


def web(cluster: ClusterBuilder, *constraints: Json, **more: t.Any) -> None:
    """A collapsed Deployment with these constraints in its template."""
    template = {"spec": {"topologySpreadConstraints": list(constraints)}} if constraints else None
    cluster.deployment("web", ["worker-1"] * 2, template=template, selector=SELECTOR, **more)


def checked(snapshot: ClusterSnapshot, **options: t.Any) -> WorkloadReport:
    (workload,) = snapshot.workloads()
    return WorkloadChecker(snapshot, CheckOptions(**options)).check(workload)


def decide(snapshot: ClusterSnapshot, *keys: str, **options: t.Any) -> RestartDecision:
    """The decision on a restart that adds constraints over these topology keys."""
    judged = RestartOptions(spread_constraint=ADD, topology_keys=keys or (HOST,), **options)
    report = checked(snapshot, topology_keys=judged.topology_keys, add_constraints=True)
    return decide_restart(report, snapshot, judged, now_s=NOW)


def keys_of(made: RestartDecision) -> list[str]:
    return [constraint.topology_key for constraint in made.constraints]


@pytest.mark.parametrize(
    ("labels", "constraints", "judged", "added"),
    [
        pytest.param([ZONE], [], [HOST], [HOST, ZONE], id="the system defaults are replaced"),
        pytest.param([], [], [HOST], [HOST], id="a node without a zone keeps the zone out"),
        pytest.param([ZONE, RACK], [], [RACK], [RACK, HOST, ZONE], id="a judged key comes first"),
        pytest.param([ZONE], [soft(RACK)], [HOST], [HOST], id="without system defaults only the judged key is added"),
        pytest.param([ZONE], [soft(HOST)], [HOST, ZONE], [ZONE], id="a present key is not added"),
        pytest.param([ZONE], [soft(HOST)], [HOST], [], id="nothing is missing"),
        pytest.param([ZONE], [soft(HOST, whenUnsatisfiable="DoNotSchedule")], [HOST], [], id="a hard constraint is present, too"),
    ],
)
def test_constraints_are_added_for_the_topology_keys_that_have_none(
    labels: list[str], constraints: list[Json], judged: list[str], added: list[str]
) -> None:
    cluster = cluster_with(*labels)
    web(cluster, *constraints)
    made = decide(cluster.snapshot(), *judged, only_if_helps=False)
    assert (made.action, keys_of(made)) == ("restart", added)


def test_constraint_that_admission_gives_to_the_pods_is_not_added_to_the_template() -> None:
    cluster = cluster_with(ZONE)
    web(cluster)
    for number, pod in enumerate(cluster.pods):
        own = (struct(TopologySpreadConstraint, soft(HOST)),)
        cluster.pods[number] = replace(pod, spec=replace(pod.spec, topology_spread_constraints=own))
    assert keys_of(decide(cluster.snapshot(), HOST, ZONE)) == [ZONE], "two constraints with one key are invalid"


def test_hard_default_constraints_of_the_profile_are_kept_for_a_template_without_constraints() -> None:
    hard = TopologySpreadConstraint(max_skew=2, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    profiles = {"default-scheduler": SchedulerProfile(default_constraints=(hard,))}
    cluster = cluster_with(ZONE)
    web(cluster)
    found = {one.topology_key: (one.max_skew, one.when_unsatisfiable) for one in decide(cluster.snapshot(profiles=profiles)).constraints}
    assert found == {ZONE: (2, "DoNotSchedule"), HOST: (1, "ScheduleAnyway")}


def default(key: str, max_skew: int, action: str = "ScheduleAnyway") -> Json:
    """A default constraint of a profile."""
    return {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": action}


@pytest.mark.parametrize(
    ("defaults", "added"),
    [
        pytest.param(None, {HOST: (1, "ScheduleAnyway"), ZONE: (1, "ScheduleAnyway")}, id="system defaults"),
        pytest.param([], {HOST: (1, "ScheduleAnyway")}, id="an empty list"),
        pytest.param([default(RACK, 5)], {RACK: (5, "ScheduleAnyway"), HOST: (1, "ScheduleAnyway")}, id="another key with its maxSkew"),
        pytest.param([default(HOST, 3)], {HOST: (3, "ScheduleAnyway")}, id="the judged key with its maxSkew"),
        pytest.param(
            [default(RACK, 2), default(RACK, 5, "DoNotSchedule"), default(ZONE, 4, "DoNotSchedule")],
            {RACK: (5, "DoNotSchedule"), ZONE: (4, "DoNotSchedule"), HOST: (1, "ScheduleAnyway")},
            id="of one key the hard one",
        ),
    ],
)
def test_default_constraints_of_a_list_are_kept_for_a_template_without_constraints(
    defaults: list[Json] | None, added: dict[str, tuple[int, str]]
) -> None:
    args = {"defaultingType": "System"} if defaults is None else {"defaultingType": "List", "defaultConstraints": defaults}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [{"name": "PodTopologySpread", "args": args}]}],
    }
    cluster = cluster_with(ZONE, RACK)
    web(cluster)
    made = decide(cluster.snapshot(profiles=profiles_of(config, "")), only_if_helps=False)
    assert {one.topology_key: (one.max_skew, one.when_unsatisfiable) for one in made.constraints} == added
    assert all(one.label_selector is not None and one.match_label_keys == ("pod-template-hash",) for one in made.constraints)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_patch_is_complete_and_is_part_of_the_patch_of_the_restart(kind: str) -> None:
    cluster = cluster_with()
    if kind == "Deployment":
        web(cluster)
    else:
        cluster.stateful_set("web", ["worker-1"] * 2, selector=SELECTOR)
    snapshot = cluster.snapshot()
    (advice,) = checked(snapshot).advice
    label = {"Deployment": "pod-template-hash", "StatefulSet": "controller-revision-hash"}[kind]
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": SELECTOR}
    assert advice.patch == {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"namespace": "app", "name": "web"},
        "spec": {"template": {"spec": {"topologySpreadConstraints": [{**constraint, "matchLabelKeys": [label]}]}}},
    }
    (workload,) = snapshot.workloads()
    made = decide(snapshot)
    outcome = make_outcome(now_s=NOW, attempts=1, outcome="pending", revision="hash1", eligible="x")
    own: Json = {"topologyKey": RACK, "later": "field"}
    written = restart_patch(workload, outcome, made.constraints, present=[own])["spec"]["template"]
    assert written.pop("metadata") == {"annotations": {"kubectl.kubernetes.io/restartedAt": outcome.time}}
    (added,) = advice.patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert written == {"spec": {"topologySpreadConstraints": [own, added]}}
    assert made.reason.text.endswith(f"; the restart adds spread constraints over {HOST}")


def test_next_pod_of_the_changed_template_has_what_admission_added_and_the_new_constraints() -> None:
    cluster = cluster_with(ZONE)
    web(cluster, soft(RACK))
    for number, pod in enumerate(cluster.pods):
        cluster.pods[number] = replace(pod, spec=replace(pod.spec, node_selector={"by": "webhook"}))
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    added = decide(snapshot, only_if_helps=False).constraints
    pod: Pod = next_pod(with_constraints(workload, added), snapshot).pod
    assert pod.spec.node_selector == {"by": "webhook"}
    assert [one.topology_key for one in pod.spec.topology_spread_constraints or ()] == [RACK, HOST]
    assert [one.topology_key for one in next_pod(workload, snapshot).pod.spec.topology_spread_constraints or ()] == [RACK]


@pytest.mark.parametrize("add", [True, False])
def test_restart_is_simulated_with_pods_that_have_the_constraints(add: bool) -> None:
    cluster = cluster_with(ZONE)
    web(cluster)
    snapshot = cluster.snapshot()
    checker = WorkloadChecker(snapshot, CheckOptions(add_constraints=add))
    report = checker.check(snapshot.workloads()[0])
    assert report.restartable
    arrived = checker.simulate_restart(report, checker.cluster_state, 0).cluster_state.arrived_pods()
    pods = [pod for pod in arrived if not pod.terminating]
    found = {tuple(one.topology_key for one in pod.spec.topology_spread_constraints or ()) for pod in pods}
    assert (len(pods), found) == (2, {(HOST, ZONE) if add else ()})


def written_by(*managers: str, **more: str) -> Json:
    """Metadata with an entry of each of these managers."""
    entry = {"apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}, "operation": "Apply", **more}
    return {"managedFields": [{"manager": manager, **entry} for manager in managers]}


MARKERS: list[tuple[Json, str]] = [
    ({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:app/web"}}, "Argo CD"),
    ({"annotations": {"argocd.argoproj.io/instance": "shop"}}, "Argo CD"),
    ({"labels": {"argocd.argoproj.io/instance": "shop"}}, "Argo CD"),
    ({"labels": {"kustomize.toolkit.fluxcd.io/name": "shop"}}, "Flux"),
    ({"labels": {"helm.toolkit.fluxcd.io/name": "shop"}}, "Flux"),
    ({"annotations": {"fluxcd.io/sync-checksum": "1f0f"}}, "Flux"),
    ({"labels": {"fluxcd.io/sync-gc-mark": "sha256.1f0f"}}, "Flux"),
    ({"annotations": {"helm.fluxcd.io/antecedent": "shop:helmrelease/web"}}, "Flux"),
    ({"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "shop"}}, "Helm"),
    ({"labels": {"app.kubernetes.io/managed-by": "Helmfile"}, "annotations": {"meta.helm.sh/release-name": "shop"}}, "Helm"),
    ({"annotations": {"meta.helm.sh/release-name": "shop"}}, "Helm"),
    (written_by("argocd-controller"), "Argo CD"),
    (written_by("argocd-application-controller"), "Argo CD"),
    (written_by("kustomize-controller"), "Flux"),
    (written_by("kubectl-client-side-apply", "helm-controller"), "Flux"),
    ({**written_by("helm-controller"), "annotations": {"meta.helm.sh/release-name": "shop"}}, "Flux"),
]
NO_MARKERS: list[Json] = [
    {"labels": {"app.kubernetes.io/instance": "shop"}},
    {"labels": {"app.kubernetes.io/managed-by": "Helm"}},
    written_by("kubectl-client-side-apply", "kube-controller-manager"),
    written_by("argocd-server"),
    written_by("argocd-controller", subresource="status"),
    written_by("kustomize-controller", subresource="scale"),
    {"managedFields": [{"manager": 5}, {"manager": ["argocd-controller"], "subresource": {}}, {"fieldsV1": {"f:spec": {}}}]},
    {"labels": {"helm.toolkit.fluxcd.io/namespace": "shop"}},
    {"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "u", "controller": True}]},
]


@pytest.mark.parametrize(("metadata", "manager"), MARKERS)
def test_managed_workload_gets_no_constraint_without_force_and_the_refusal_has_the_patch(metadata: Json, manager: str) -> None:
    cluster = cluster_with(ZONE)
    web(cluster, metadata=metadata)
    snapshot = cluster.snapshot()
    made = decide(snapshot)
    assert (made.action, made.reason.code) == ("refused", "managed")
    assert made.reason.text.startswith(f"Deployment app/web is managed by {manager} (")
    assert (
        '{"apiVersion":"apps/v1","kind":"Deployment",' in made.reason.text and '"topologyKey":"kubernetes.io/hostname"' in made.reason.text
    )
    assert decide(snapshot, force_managed=True).action == "restart"
    kept = decide_restart(checked(snapshot), snapshot, RestartOptions(), now_s=NOW)
    assert (kept.action, kept.constraints) == ("restart", ()), "a restart without constraints is not refused"


@pytest.mark.parametrize("metadata", NO_MARKERS)
def test_labels_that_many_charts_set_and_owners_in_the_cluster_are_no_refusal(metadata: Json) -> None:
    cluster = cluster_with(ZONE)
    web(cluster, metadata=metadata)
    assert decide(cluster.snapshot()).action == "restart"


def test_managed_workload_that_has_the_constraints_already_is_restarted() -> None:
    cluster = cluster_with(ZONE)
    # A constraint that counts the old pods, too, does not spread the new ones.
    of_revision = {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"]}
    web(cluster, soft(HOST, **of_revision), metadata=MARKERS[0][0])
    made = decide(cluster.snapshot())
    assert (made.action, made.constraints) == ("restart", ())


def test_restart_without_benefit_is_skipped_before_the_source_of_the_workload_matters() -> None:
    cluster = cluster_with(ZONE)
    web(cluster, metadata=MARKERS[0][0])
    full = {"metadata": {}, "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "4"}}}]}}
    cluster.pod("filler", "worker-2", template=full)
    made = decide(cluster.snapshot())
    assert (made.action, made.reason.code, made.constraints) == ("skipped", "no_gain", ())


def test_later_check_explains_constraints_that_restarts_have_added_and_that_are_still_there() -> None:
    outcome = make_outcome(now_s=NOW, attempts=1, outcome="unchanged", revision="other", eligible="x", constraints=[HOST, ZONE, "<b>"])
    cluster = cluster_with(ZONE)
    constraint = soft(ZONE, maxSkew=1, labelSelector=SELECTOR, matchLabelKeys=["pod-template-hash"])
    web(cluster, constraint, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    assert remembered_constraints(workload) == (ZONE,)
    (advice,) = checked(snapshot).advice
    assert advice.reason.code == "added_constraint" and f"over {ZONE}, and" in advice.reason.text and advice.patch == {}


@pytest.mark.parametrize(
    ("constraints", "patched"),
    [
        pytest.param([soft(HOST)], [["pod-template-hash"]], id="no key"),
        pytest.param([soft(HOST, matchLabelKeys=["version"])], [["version", "pod-template-hash"]], id="another key stays"),
        pytest.param([soft(HOST), soft(HOST, whenUnsatisfiable="DoNotSchedule")], [], id="a patch cannot tell them apart"),
    ],
)
def test_advice_to_count_new_pods_only_has_a_patch_of_that_constraint(constraints: list[Json], patched: list[list[str]]) -> None:
    cluster = cluster_with(ZONE)
    web(cluster, *constraints)
    advices = checked(cluster.snapshot()).advice
    assert {advice.reason.code for advice in advices} == {"old_pods_count"}
    entries = [
        entry for advice in advices if advice.patch for entry in advice.patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    ]
    assert entries == [{"topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": keys} for keys in patched]


def without_selector(key: str, **more: t.Any) -> Json:
    return {name: value for name, value in soft(key, **more).items() if name != "labelSelector"}


def test_advice_to_count_new_pods_only_adds_a_selector_where_there_is_none() -> None:
    # The API server does not allow matchLabelKeys without a labelSelector.
    cluster = cluster_with(ZONE)
    web(cluster, without_selector(HOST))
    (advice,) = [advice for advice in checked(cluster.snapshot()).advice if advice.reason.code == "old_pods_count"]
    (entry,) = advice.patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert entry == {
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["pod-template-hash"],
    }
    assert "without a labelSelector" in advice.reason.text


@pytest.mark.parametrize(
    "selector",
    [{"matchLabels": {"pod-template-hash": "hash1"}}, {"matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]}],
)
def test_key_that_the_selector_names_is_not_advised(selector: Json) -> None:
    # The API server does not allow a key in both of them.
    cluster = cluster_with(ZONE)
    web(cluster, soft(HOST, labelSelector=selector))
    assert "old_pods_count" not in [advice.reason.code for advice in checked(cluster.snapshot()).advice]


def test_eviction_keeps_the_memory_of_added_constraints() -> None:
    from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
    from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction

    outcome = make_outcome(now_s=NOW - 7200, attempts=1, outcome="unchanged", revision="other", eligible="x", constraints=[HOST])
    cluster = cluster_with(ZONE)
    web(cluster, soft(HOST), metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    snapshot = cluster.snapshot()
    made = decide_eviction(checked(snapshot), snapshot, ClusterState.of(snapshot), RestartOptions(), now_s=NOW)
    assert made.outcome is not None and made.outcome.constraints == (HOST,)
