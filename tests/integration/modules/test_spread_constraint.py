# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restarts that add spread constraints: the real scheduler spreads the pods then and in later rollouts, and nothing else changes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import (
    deployment,
    filler,
    identity,
    known_outcome,
    pile_up,
    pod_uids,
    pods_of,
    read,
    restart,
    restarted_at,
    stateful_set,
    wait_rolled_out,
    wait_until,
    workers,
)

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "test.onprem/rack"
LABELS = {"Deployment": "pod-template-hash", "StatefulSet": "controller-revision-hash"}


def constraints_of(cluster: Cluster, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The constraints of the pod template, as the API server has them."""
    found: list[dict[str, Any]] = read(cluster, manifest)["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
    return found


def soft(manifest: dict[str, Any], key: str) -> dict[str, Any]:
    """The constraint that a restart adds."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": manifest["spec"]["selector"],
        "matchLabelKeys": [LABELS[manifest["kind"]]],
    }


def zones(cluster: Cluster, manifest: dict[str, Any]) -> set[str]:
    """The zones of the workload's pods."""
    zone_of = {node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE) for node in cluster.get("/api/v1/nodes")["items"]}
    return {zone_of[pod["spec"]["nodeName"]] for pod in pods_of(cluster, manifest) if "deletionTimestamp" not in pod["metadata"]}


@pytest.fixture
def full_zone(cluster: Cluster, namespace: str) -> None:
    """The nodes of one zone are almost half full.

    The score for the free capacity of the other zone is then higher than the score of the default constraints, which allow a skew of 5, and
    lower than the score of a constraint that allows a skew of 1.
    """
    full = [name for name in workers(cluster) if int(name[-1]) % 2 == 0]
    fillers = [filler(namespace, node, cpu="3600m") for node in full]
    for manifest in fillers:
        manifest["spec"]["containers"][0]["resources"]["requests"]["memory"] = "14745Mi"
    cluster.apply(fillers)


@pytest.mark.usefixtures("full_zone")
def test_workloads_that_scoring_keeps_in_one_zone_are_spread_now_and_in_later_rollouts(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    web, db = deployment(namespace, "web", 2), stateful_set(namespace, "db", 2, podManagementPolicy="Parallel")
    both = [web, db]
    cluster.apply(both)
    for manifest in both:
        wait_rolled_out(cluster, manifest)
    keep = {"topology_keys": [ZONE], "only_if_helps": False, "cooldown": "0", "max_parallel": 2}
    kept = modules.restart(workloads=[identity(one) for one in both], **keep)["workloads"]
    assert [(one["action"], one["outcome"], one["spread_constraints"]) for one in kept] == [("restarted", "unchanged", [])] * 2, kept

    found = modules.check(namespace, topology_keys=[ZONE], cooldown="0")
    assert found["uneven"] == [identity(one) for one in both], found
    advised = {one["name"]: one["advice"][0]["patch"] for one in found["workloads"]}
    add = {"check": {**found, "failed": False}, "spread_constraint": "add", "cooldown": "0", "max_parallel": 2}
    versions = [read(cluster, one)["metadata"]["resourceVersion"] for one in both]
    plan = modules.restart(**add, check_mode=True, diff=True)
    assert versions == [read(cluster, one)["metadata"]["resourceVersion"] for one in both]
    done = modules.restart(**add, diff=True)
    for manifest, planned, entry, change in zip(both, plan["workloads"], done["workloads"], done["diff"], strict=True):
        added = [soft(manifest, ZONE), soft(manifest, HOST)]
        assert (entry["action"], entry["outcome"]) == ("restarted", "improved"), entry
        assert (planned["action"], planned["outcome"]) == ("would_restart", "pending"), planned
        assert constraints_of(cluster, manifest) == entry["spread_constraints"] == planned["spread_constraints"] == added
        assert entry["patch"] == planned["patch"] == advised[entry["name"]]
        before, after = (change[side]["spec"]["template"]["spec"]["topologySpreadConstraints"] for side in ("before", "after"))
        assert (before, after) == ([], added)
        assert entry["message"].endswith(f"the restart adds spread constraints over {ZONE}, {HOST}")
        assert known_outcome(cluster, manifest)["constraints"] == [ZONE, HOST]
        assert zones(cluster, manifest) == {"zone-a", "zone-b"}
    assert [change["after"]["spec"]["template"]["spec"] for change in plan["diff"]] == [
        change["after"]["spec"]["template"]["spec"] for change in done["diff"]
    ]

    pods = [pod_uids(cluster, one) for one in both]
    again = modules.restart(**add)
    assert again["changed"] is False and [one["reason"] for one in again["workloads"]] == ["spread"] * 2, again
    assert pods == [pod_uids(cluster, one) for one in both]
    for manifest in both:
        restart(cluster, manifest)
    for manifest in both:
        wait_rolled_out(cluster, manifest)
        assert zones(cluster, manifest) == {"zone-a", "zone-b"}
        assert constraints_of(cluster, manifest) == [soft(manifest, ZONE), soft(manifest, HOST)]


def test_constraints_of_the_user_stay_as_they_are(cluster: Cluster, modules: Modules, namespace: str) -> None:
    odd = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b", "a"]}]}
    own = [
        {"maxSkew": 5, "minDomains": 3, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": odd},
        {"maxSkew": 2, "topologyKey": "example.com/row", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"},
        {"maxSkew": 4, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": odd, "matchLabelKeys": ["app"]},
    ]
    own[2]["labelSelector"] = {"matchLabels": {"tier": "x"}}
    web = deployment(namespace, "web", 0, template={"topologySpreadConstraints": own})
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    before = read(cluster, web)["spec"]["template"]["spec"]
    named = {**identity(web), "spread_constraint": "add", "topology_keys": [HOST, ZONE]}
    first = modules.restart(**named)["workloads"][0]
    assert first["spread_constraints"] == [soft(web, HOST), soft(web, ZONE)]
    after = read(cluster, web)["spec"]["template"]["spec"]
    assert before.pop("topologySpreadConstraints") == own
    assert after.pop("topologySpreadConstraints") == [*own, soft(web, HOST), soft(web, ZONE)]
    assert before == after
    second = modules.restart(**named)["workloads"][0]
    assert (second["action"], second["spread_constraints"], second["patch"]) == ("restarted", [], {})
    assert len(constraints_of(cluster, web)) == 5
    assert known_outcome(cluster, web)["constraints"] == [HOST, ZONE], "the second restart has added nothing and remembers the first"


MANAGERS: dict[str, dict[str, Any]] = {
    "argo": {"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/argo"}},
    "flux": {"labels": {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}},
    "helm": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "shop"}},
}


def test_workloads_of_argo_cd_flux_and_helm_are_refused_with_a_patch_that_works_and_forced(
    cluster: Cluster, modules: Modules, namespace: str, tmp_path: Path
) -> None:
    webs = {name: deployment(namespace, name, 2) for name in MANAGERS}
    for name, web in webs.items():
        web["metadata"].update(MANAGERS[name])
    pile_up(cluster, *webs.values())
    before = [read(cluster, web) for web in webs.values()]
    mark = cluster.audit().mark()
    refused = modules.restart(workloads=[identity(web) for web in webs.values()], spread_constraint="add")
    assert refused["changed"] is False
    assert [(one["action"], one["reason"], one["spread_constraints"]) for one in refused["workloads"]] == [("refused", "managed", [])] * 3
    assert before == [read(cluster, web) for web in webs.values()]
    named = modules.restart(**identity(webs["helm"]), spread_constraint="add")
    assert named["failed"] and "is managed by Helm (annotation meta.helm.sh/release-name: shop)" in named["msg"]
    assert not list(cluster.audit().events(since=mark, user_agent="onprem.kube_scheduling/k8s_rollout_restart", verb="patch"))

    for entry in refused["workloads"]:
        _text, _remedy, shown = entry["message"].partition("or set force_managed: ")
        assert json.loads(shown) == entry["patch"]
    file = tmp_path / "patch.json"
    file.write_text(json.dumps(refused["workloads"][0]["patch"]))
    cluster.kubectl("patch", "deployment", "argo", "-n", namespace, "--patch-file", str(file))
    assert constraints_of(cluster, webs["argo"]) == [soft(webs["argo"], HOST), soft(webs["argo"], ZONE)]

    forced = modules.restart(**identity(webs["flux"]), spread_constraint="add", force_managed=True, wait=False)["workloads"][0]
    assert (forced["action"], forced["spread_constraints"]) == ("restarted", [soft(webs["flux"], HOST), soft(webs["flux"], ZONE)])
    kept = modules.restart(**identity(webs["helm"]), wait=False)["workloads"][0]
    assert (kept["action"], kept["patch"]) == ("restarted", {}), "a restart without constraints is not refused"


def test_interrupted_run_is_finished_by_the_next_one_without_a_second_constraint(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    web = deployment(namespace, "web", 2)
    web["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": "3"}
    pile_up(cluster, web)
    params = {"workloads": [identity(web)], "spread_constraint": "add"}
    process = modules.start("k8s_rollout_restart", **params)
    wait_until(lambda: restarted_at(cluster, web) is not None, what="the restart")
    process.send_signal(signal.SIGKILL)
    process.wait()
    stamp = restarted_at(cluster, web)
    pending = known_outcome(cluster, web)
    assert (pending["outcome"], pending["constraints"]) == ("pending", [HOST, ZONE])
    done = modules.restart(**params)["workloads"][0]
    assert (done["reason"], done["outcome"], done["spread_constraints"]) == ("already_restarted", "improved", [])
    assert restarted_at(cluster, web) == stamp
    assert constraints_of(cluster, web) == [soft(web, HOST), soft(web, ZONE)]
    assert (known_outcome(cluster, web)["outcome"], known_outcome(cluster, web)["constraints"]) == ("improved", [HOST, ZONE])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"spread_constraint": "yes"}, "value of spread_constraint must be one of: keep, add, got: yes"),
        ({"spread_constraint": "add", "strategy": "evict_surplus"}, "spread_constraint: evict_surplus does not change"),
        ({"force_managed": "perhaps"}, "argument 'force_managed' is of type"),
    ],
)
def test_wrong_values_are_refused_by_name(modules: Modules, params: dict[str, Any], said: str) -> None:
    found = modules.restart(kind="Deployment", namespace="shop", name="web", **params)
    assert found["failed"] and said in found["msg"], found


@pytest.fixture
def one_preferred_node(cluster: Cluster) -> Iterator[str]:
    """A node without a taint. The scheduler avoids the taint of all other workers by a score that outweighs a soft constraint."""
    first, *others = workers(cluster)
    for name in others:
        cluster.kubectl("taint", "node", name, "test.onprem/avoided=:PreferNoSchedule")
    yield first
    for name in others:
        cluster.kubectl("taint", "node", name, "test.onprem/avoided-")


def test_hard_constraint_is_advised_where_the_scores_outweigh_a_soft_one_and_its_patch_spreads_the_pods(
    cluster: Cluster, modules: Modules, namespace: str, one_preferred_node: str, tmp_path: Path
) -> None:
    web = deployment(namespace, "web", 2)
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    (found,) = modules.check(namespace)["workloads"]
    assert (found["restart_helps"], found["domains"][HOST][one_preferred_node]) == (False, 2), found
    (advice,) = found["advice"]
    assert advice["reason"] == "scoring_does_not_spread" and "a soft constraint would not" in advice["message"]
    kept = modules.restart(**identity(web), spread_constraint="add", only_if_helps=False)["workloads"][0]
    assert (kept["action"], kept["outcome"]) == ("restarted", "unchanged"), kept
    assert constraints_of(cluster, web) == [soft(web, HOST), soft(web, ZONE)]

    file = tmp_path / "patch.json"
    file.write_text(json.dumps(advice["patch"]))
    cluster.kubectl("patch", "deployment", "web", "-n", namespace, "--patch-file", str(file))
    assert constraints_of(cluster, web) == [{**soft(web, HOST), "whenUnsatisfiable": "DoNotSchedule"}, soft(web, ZONE)]
    wait_rolled_out(cluster, web)
    live = [pod for pod in pods_of(cluster, web) if "deletionTimestamp" not in pod["metadata"]]
    assert len({pod["spec"]["nodeName"] for pod in live}) == 2


def test_patch_that_counts_only_new_pods_is_accepted_for_a_constraint_without_a_selector(
    cluster: Cluster, modules: Modules, namespace: str, tmp_path: Path
) -> None:
    web = deployment(namespace, "web", 2)
    own = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = [own]
    pile_up(cluster, web)
    (patch,) = [one["patch"] for one in modules.check(namespace)["workloads"][0]["advice"] if one["reason"] == "old_pods_count"]
    file = tmp_path / "patch.json"
    file.write_text(json.dumps(patch))
    cluster.kubectl("patch", "deployment", "web", "-n", namespace, "--patch-file", str(file))
    assert constraints_of(cluster, web) == [soft(web, HOST)]


def test_workload_that_a_program_applies_server_side_is_found_without_a_marker(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    as_argo_cd = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")
    cluster.kubectl("apply", *as_argo_cd, "-f", "-", input=json.dumps(web))
    refused = modules.restart(**identity(web), spread_constraint="add")
    assert refused["failed"] and "is managed by Argo CD (field manager argocd-controller)" in refused["msg"]
