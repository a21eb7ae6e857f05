# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that admission changes: what is predicted for them is what the real scheduler does with them."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.errors import LabError
from tests.integration.kubernetes_version import MINOR, needs_kubernetes
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import (
    IMAGE,
    deployment,
    filler,
    identity,
    only_node,
    pile_up,
    pod_uids,
    pods_of,
    restart,
    stateful_set,
    wait_rolled_out,
    wait_until,
    workers,
)

DISK = "lab.onprem/disk"
SELECTOR = f'JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{"{DISK}": "ssd"}}}}'
SIDECAR = (
    'JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{'
    f'name: "proxy", image: "{IMAGE}", '
    'resources: Object.spec.containers.resources{requests: {"cpu": "500m"}}}}'
)
SETTLED_S = 2
"""A pod that is still pending after so long with free capacity unchanged stays so."""

Policy = Callable[[str], None]
_NUMBERS = itertools.count(1)


@pytest.fixture
def policy(cluster: Cluster, namespace: str) -> Iterator[Policy]:
    """Make a MutatingAdmissionPolicy for pods of the namespace; ends when it has taken effect."""
    needs_kubernetes("1.36", "MutatingAdmissionPolicy")
    group = "/apis/admissionregistration.k8s.io/v1"
    made: list[str] = []
    first: list[dict[str, Any]] = []

    def make(patch: str) -> None:
        name = f"{namespace}-{next(_NUMBERS)}"
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        spec = {
            "matchConstraints": {
                "resourceRules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{patch}]"}}],
        }
        before = _admitted(cluster, namespace)
        first.append(before)
        made.append(name)
        cluster.api.post(f"{group}/mutatingadmissionpolicies", {**kind, "kind": "MutatingAdmissionPolicy", "spec": spec})
        binding = {**kind, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}}
        cluster.api.post(f"{group}/mutatingadmissionpolicybindings", binding)
        wait_until(lambda: _admitted(cluster, namespace) != before, what="the effect of the policy")

    yield make
    for name in made:
        cluster.api.delete(f"{group}/mutatingadmissionpolicybindings/{name}")
        cluster.api.delete(f"{group}/mutatingadmissionpolicies/{name}")
    if made:
        wait_until(lambda: _admitted(cluster, namespace) == first[0], what="the end of the policies")


@pytest.fixture
def disks(cluster: Cluster) -> Iterator[list[str]]:
    """The first two workers, which have the label of the disk."""
    chosen = workers(cluster)[:2]
    for node in chosen:
        cluster.kubectl("label", "node", node, f"{DISK}=ssd")
    yield chosen
    for node in chosen:
        cluster.kubectl("label", "node", node, f"{DISK}-")


def _admitted(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The spec of a pod as admission would store it now."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": IMAGE}], "automountServiceAccountToken": False},
    }
    spec: dict[str, Any] = cluster.api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)["spec"]
    return spec


def judged(modules: Modules, namespace: str) -> dict[str, Any]:
    """The only workload's line."""
    found = modules.check(namespace)["workloads"]
    assert len(found) == 1, found
    line: dict[str, Any] = found[0]
    return line


def codes(line: dict[str, Any]) -> dict[str, int]:
    """The blockers' codes, and the nodes of each."""
    return {blocker["reason"]: blocker["nodes"] for blocker in line["blockers"]}


def texts(line: dict[str, Any]) -> dict[str, int]:
    """The blockers' texts, and the nodes of each."""
    return {blocker["message"]: blocker["nodes"] for blocker in line["blockers"]}


def evict(modules: Modules, manifest: dict[str, Any]) -> dict[str, Any]:
    """The line of a run over one workload."""
    line: dict[str, Any] = modules.restart(workloads=[identity(manifest)], strategy="evict_surplus")["workloads"][0]
    return line


def nobody_is_evicted(cluster: Cluster, modules: Modules, manifest: dict[str, Any]) -> dict[str, Any]:
    """evict_surplus evicts no pod. Return its line."""
    before = pod_uids(cluster, manifest)
    line = evict(modules, manifest)
    assert line["action"] == "skipped" and pod_uids(cluster, manifest) == before, line
    return line


def restart_hangs(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, int]:
    """Restart without asking anybody: the scheduler finds no node for a new pod. Returns its reasons, and the nodes of each."""
    restart(cluster, manifest)
    wait_until(lambda: bool(_unschedulable(cluster, manifest)), what="a new pod without a node")
    time.sleep(SETTLED_S)
    messages = _unschedulable(cluster, manifest)
    assert messages, "the scheduler found a node for it after all"
    reasons = messages[0].partition("available: ")[2].partition(". ")[0].removesuffix(".")
    return {text: int(count) for count, text in re.findall(r"(\d+) (.+?)(?:, (?=\d)|$)", reasons)}


def _unschedulable(cluster: Cluster, manifest: dict[str, Any]) -> list[str]:
    conditions = (condition for pod in pods_of(cluster, manifest) for condition in pod["status"].get("conditions", ()))
    return [condition["message"] for condition in conditions if condition.get("reason") == "Unschedulable"]


def homes(cluster: Cluster, manifest: dict[str, Any]) -> Counter[str]:
    """Return the number of the workload's pods on each node."""
    return Counter(pod["spec"].get("nodeName", "") for pod in pods_of(cluster, manifest) if "deletionTimestamp" not in pod["metadata"])


def restarts_well(cluster: Cluster, modules: Modules, manifest: dict[str, Any]) -> None:
    """A restart ends, and the replicas are spread."""
    done = modules.restart(workloads=[identity(manifest)])["workloads"][0]
    assert (done["action"], done["outcome"]) == ("restarted", "improved"), done
    assert max(homes(cluster, manifest).values()) == 1


# --- a node selector --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [deployment, stateful_set], ids=["Deployment", "StatefulSet"])
def test_a_node_selector_that_admission_adds_closes_the_other_nodes(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, disks: list[str], kind: Any
) -> None:
    policy(SELECTOR)
    web = kind(namespace, "web", 2)
    pile_up(cluster, web, node=disks[0])
    cluster.apply(filler(namespace, disks[0], cpu="7750m"))
    cluster.apply(filler(namespace, disks[1]))
    line = judged(modules, namespace)
    assert (line["verdict"], line["restart_helps"]) == ("collapsed", False), line
    full = 2 if kind is deployment else 1  # a replica of a StatefulSet leaves its node before the new one comes
    assert codes(line) == {"insufficient_cpu": full, "node_affinity": len(workers(cluster)) - 2, "untolerated_taint": 1}, line
    assert nobody_is_evicted(cluster, modules, web)["reason"] == "no_capacity"
    if kind is deployment:
        assert restart_hangs(cluster, web) == texts(line)


def test_with_free_capacity_behind_an_added_node_selector_a_restart_spreads(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, disks: list[str]
) -> None:
    policy(SELECTOR)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=disks[0])
    line = judged(modules, namespace)
    assert (line["restart_helps"], line["blockers"]) == (True, []), line
    assert set(line["domains"]["kubernetes.io/hostname"]) == set(disks)
    restarts_well(cluster, modules, web)
    assert set(homes(cluster, web)) == set(disks)


def test_one_node_behind_an_added_selector_is_a_single_domain(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, disks: list[str]
) -> None:
    cluster.kubectl("label", "node", disks[1], f"{DISK}-")
    policy(SELECTOR)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=disks[0])
    assert modules.check(namespace)["summary"]["healthy"] == 1
    assert nobody_is_evicted(cluster, modules, web)["reason"] == "single_domain"


def test_pods_of_one_revision_that_differ_are_unknown_by_the_name_of_the_field(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, disks: list[str]
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=disks[0])
    policy(SELECTOR)
    with only_node(cluster, disks[0]):
        cluster.kubectl("scale", "deployment/web", "-n", namespace, "--replicas=3")
        wait_rolled_out(cluster, web)
    line = judged(modules, namespace)
    assert (line["verdict"], line["restart_helps"]) == ("collapsed", None), line
    assert len(line["blockers"]) == 1 and "spec.nodeSelector" in line["blockers"][0]["message"], line
    assert "spec.nodeSelector" in nobody_is_evicted(cluster, modules, web)["message"]


GATE = (
    'JSONPatch{op: "add", path: "/spec/schedulingGates", value: []}, '
    'JSONPatch{op: "add", path: "/spec/schedulingGates/-", value: Object.spec.schedulingGates{name: "lab.onprem/wait"}}'
)


def test_a_node_selector_that_was_written_while_the_pods_were_gated_is_unknown(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, disks: list[str]
) -> None:
    policy(GATE)
    web = deployment(namespace, "web", 2)
    with only_node(cluster, disks[0]):
        cluster.apply(web)
        wait_until(lambda: len([pod for pod in pods_of(cluster, web) if pod["spec"].get("schedulingGates")]) == 2, what="the gated pods")
        for pod in pods_of(cluster, web):
            opened = {"spec": {"schedulingGates": None, "nodeSelector": {DISK: "ssd"}}}
            cluster.api.merge_patch(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", opened)
        wait_rolled_out(cluster, web)
    line = judged(modules, namespace)
    assert (line["verdict"], line["restart_helps"]) == ("collapsed", None), line
    assert [blocker["nodes"] for blocker in line["blockers"]] and "spec.nodeSelector" in line["blockers"][0]["message"], line
    assert "spec.nodeSelector" in nobody_is_evicted(cluster, modules, web)["message"]


# --- tolerations and spread constraints -------------------------------------------------------------------------------

SPECIAL = "lab.onprem/special"
TOLERATION = (
    'JSONPatch{op: "add", path: "/spec/tolerations/-", value: '
    f'Object.spec.tolerations{{key: "{SPECIAL}", operator: "Exists", effect: "NoSchedule"}}}}'
)
CONSTRAINT = (
    'JSONPatch{op: "add", path: "/spec/topologySpreadConstraints", value: []}, '
    'JSONPatch{op: "add", path: "/spec/topologySpreadConstraints/-", value: Object.spec.topologySpreadConstraints{'
    'maxSkew: 1, topologyKey: "kubernetes.io/hostname", whenUnsatisfiable: "DoNotSchedule", nodeTaintsPolicy: "Honor", '
    'labelSelector: Object.spec.topologySpreadConstraints.labelSelector{matchLabels: {"app": "web"}}, '
    'matchLabelKeys: ["pod-template-hash"]}}'
)


def test_a_toleration_that_admission_adds_opens_a_tainted_node(cluster: Cluster, modules: Modules, namespace: str, policy: Policy) -> None:
    home, special, *others = workers(cluster)
    cluster.apply([filler(namespace, node) for node in others])
    policy(TOLERATION)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    cluster.kubectl("taint", "node", special, f"{SPECIAL}=yes:NoSchedule")
    try:
        line = judged(modules, namespace)
        assert (line["restart_helps"], line["blockers"]) == (True, []), line
        restarts_well(cluster, modules, web)
        assert set(homes(cluster, web)) == {home, special}
    finally:
        cluster.kubectl("taint", "node", special, f"{SPECIAL}-")


def test_a_spread_constraint_that_admission_adds_counts_the_pods_of_the_next_revision(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy
) -> None:
    policy(CONSTRAINT)
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web)
    line = judged(modules, namespace)
    assert (line["restart_helps"], line["blockers"]) == (True, []), line
    assert "no_spreading_rule" not in [advice["reason"] for advice in line["advice"]], line
    restarts_well(cluster, modules, web)


# --- a sidecar --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [deployment, stateful_set], ids=["Deployment", "StatefulSet"])
def test_a_sidecar_that_admission_adds_takes_its_part_of_a_node(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy, kind: Any
) -> None:
    home, *others = workers(cluster)
    web = kind(namespace, "web", 2)
    cluster.apply([filler(namespace, node, cpu="7600m") for node in others])  # 400m are free: enough without the sidecar
    cluster.apply(filler(namespace, home, cpu="6700m"))
    policy(SIDECAR)
    pile_up(cluster, web, node=home)
    assert [len(pod["spec"]["containers"]) for pod in pods_of(cluster, web)] == [2, 2]
    line = judged(modules, namespace)
    assert (line["verdict"], line["restart_helps"]) == ("collapsed", False), line
    assert codes(line)["insufficient_cpu"] >= len(others), line
    assert nobody_is_evicted(cluster, modules, web)["reason"] == "no_capacity"
    if kind is deployment:
        assert restart_hangs(cluster, web) == texts(line)


def test_with_free_capacity_for_pod_and_sidecar_a_pod_is_evicted_and_comes_back(
    cluster: Cluster, modules: Modules, namespace: str, policy: Policy
) -> None:
    home, other, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu="7600m") for node in others])
    policy(SIDECAR)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    assert judged(modules, namespace)["restart_helps"] is True
    line = evict(modules, web)
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert set(homes(cluster, web)) == {home, other}


# --- defaults of a LimitRange -----------------------------------------------------------------------------------------


def _limit_range(namespace: str, cpu: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": namespace},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]},
    }


def _without_requests(namespace: str) -> dict[str, Any]:
    return deployment(namespace, "web", 2, template={"containers": [{"name": "main", "image": IMAGE}]})


@pytest.mark.parametrize("bound", [{"min": {"cpu": "10m"}}, {"max": {"cpu": "9"}}])
def test_a_pod_without_the_request_or_limit_that_a_limit_range_bounds_is_not_restarted(
    cluster: Cluster, modules: Modules, namespace: str, bound: dict[str, Any]
) -> None:
    """The API server would create no new pod."""
    web = _without_requests(namespace)
    pile_up(cluster, web)
    cluster.apply({**_limit_range(namespace, "1"), "spec": {"limits": [{"type": "Pod", **bound}]}})
    with pytest.raises(LabError, match=r"No (request|limit) is specified"):
        _admitted(cluster, namespace)
    line = judged(modules, namespace)
    assert line["restart_helps"] is False and "limit_range" in codes(line), line


@pytest.mark.parametrize(("free", "helps"), [("1500m", True), ("800m", False)])
def test_requests_that_a_limit_range_gives_count(cluster: Cluster, modules: Modules, namespace: str, free: str, *, helps: bool) -> None:
    home, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu=f"{8000 - int(free[:-1])}m") for node in others])
    cluster.apply(filler(namespace, home, cpu="5900m"))
    cluster.apply(_limit_range(namespace, "1"))
    web = _without_requests(namespace)
    pile_up(cluster, web, node=home)
    line = judged(modules, namespace)
    assert line["restart_helps"] is helps, line
    if helps:
        restarts_well(cluster, modules, web)
    else:
        nobody_is_evicted(cluster, modules, web)
        restart_hangs(cluster, web)


@pytest.mark.parametrize(("then", "now"), [("", "1"), ("100m", "1")])
def test_what_a_limit_range_gives_now_counts_and_not_what_it_gave(
    cluster: Cluster, modules: Modules, namespace: str, then: str, now: str
) -> None:
    home, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu="7500m") for node in others])
    cluster.apply(filler(namespace, home, cpu="7300m"))
    if then:
        cluster.apply(_limit_range(namespace, then))
    web = _without_requests(namespace)
    pile_up(cluster, web, node=home)
    cluster.apply(_limit_range(namespace, now))
    assert judged(modules, namespace)["restart_helps"] is False
    restart_hangs(cluster, web)


def test_a_limit_range_that_is_gone_gives_nothing(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu="7500m") for node in others])
    cluster.apply(_limit_range(namespace, "1"))
    web = _without_requests(namespace)
    pile_up(cluster, web, node=home)
    cluster.kubectl("delete", "limitrange", "defaults", "-n", namespace)
    assert judged(modules, namespace)["restart_helps"] is True
    restarts_well(cluster, modules, web)


# --- resizes ----------------------------------------------------------------------------------------------------------


def _resize(cluster: Cluster, pod: dict[str, Any], cpu: str) -> None:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    # The API server allows the resize of a running pod only if its kubelet reports resources.
    statuses = [{**status, "resources": {"requests": {"cpu": "100m"}}} for status in pod["status"]["containerStatuses"]]
    cluster.api.merge_patch(f"{path}/status", {"status": {"containerStatuses": statuses}})
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    cluster.kubectl("patch", "pod", metadata["name"], "-n", metadata["namespace"], "--subresource", "resize", "-p", json.dumps(patch))


@pytest.mark.parametrize("resized", [1, 2], ids=["the youngest", "all"])
def test_a_resize_in_place_does_not_carry_over_to_new_pods(cluster: Cluster, modules: Modules, namespace: str, resized: int) -> None:
    home, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu="7500m") for node in others])
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    by_age = sorted(pods_of(cluster, web), key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    for pod in by_age[-resized:]:
        _resize(cluster, pod, "2")
    assert {pod["metadata"]["generation"] for pod in pods_of(cluster, web)} == ({1, 2} if resized == 1 else {2})
    line = judged(modules, namespace)
    # A pod with the size of the resized ones would fit on no other node.
    assert line["feasible_domains"] == {"kubernetes.io/hostname": sorted([home, *others])}, line
    if MINOR < 36:
        # The scores of the nodes are nearly equal here, so that the result depends on the choice of the scheduler. The capacity suffices.
        assert line["restart_helps"] is None, line
        assert {blocker["reason"] for blocker in line["blockers"]} <= {"depends_on_ties", "depends_on_termination"}, line
        return
    assert (line["restart_helps"], line["blockers"]) == (True, []), line
    restarts_well(cluster, modules, web)


def test_a_pod_that_was_made_smaller_comes_back_as_big_as_its_template_says(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, *others = workers(cluster)
    cluster.apply([filler(namespace, node, cpu="7500m") for node in others])
    cluster.apply(filler(namespace, home, cpu="5900m"))
    web = deployment(namespace, "web", 2, cpu="1")
    pile_up(cluster, web, node=home)
    for pod in pods_of(cluster, web):
        _resize(cluster, pod, "100m")
    assert judged(modules, namespace)["restart_helps"] is False
    nobody_is_evicted(cluster, modules, web)
