# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next sync of a GitOps program after a restart: docs/gitops.md says which sync undoes the changes of the restart.

The syncs are the commands that the documentation of Argo CD names for its sync options, and the request of Flux.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, outcome, pile_up, pod_uids, read, restarted_at, stateful_set, wait_rolled_out

SERVER_SIDE = ("apply", "--server-side", "--force-conflicts")
SYNCS = {
    "Argo CD": ("apply", "--field-manager=argocd-controller"),
    "Argo CD with ServerSideApply=true": (*SERVER_SIDE, "--field-manager=argocd-controller"),
    "Flux": (*SERVER_SIDE, "--field-manager=kustomize-controller"),
}
REPLACE = ("replace", "--field-manager=argocd-controller")
"""The command of Argo CD with Replace=true."""
MANAGER = "onprem.kube_scheduling"
MAKERS = {"Deployment": deployment, "StatefulSet": stateful_set}


def sync(cluster: Cluster, command: tuple[str, ...], manifest: dict[str, Any]) -> None:
    cluster.kubectl(*command, "-f", "-", input=json.dumps(manifest))


def piled_up(cluster: Cluster, namespace: str, kind: str, command: tuple[str, ...]) -> dict[str, Any]:
    """A workload that the program has synced, with both replicas on one node."""
    web = MAKERS[kind](namespace, "web", 2)
    pile_up(cluster, web)
    sync(cluster, command, web)
    wait_rolled_out(cluster, web)
    return web


def state(cluster: Cluster, manifest: dict[str, Any]) -> tuple[Any, ...]:
    found = read(cluster, manifest)
    return found["metadata"]["generation"], found["spec"]["template"], outcome(cluster, manifest)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("command", SYNCS.values(), ids=SYNCS)
def test_the_next_sync_keeps_the_restart_and_the_added_constraints(
    cluster: Cluster, modules: Modules, namespace: str, command: tuple[str, ...], kind: str
) -> None:
    web = piled_up(cluster, namespace, kind, command)
    done = modules.restart(**identity(web), spread_constraint="add", force_managed=True)["workloads"][0]
    assert (done["action"], done["outcome"]) == ("restarted", "improved") and done["spread_constraints"]
    before, pods = state(cluster, web), pod_uids(cluster, web)

    sync(cluster, command, web)

    assert state(cluster, web) == before
    wait_rolled_out(cluster, web)
    assert pod_uids(cluster, web) == pods, "no second rollout"


def test_flux_does_not_reclaim_the_annotation_of_a_restart_as_that_of_kubectl(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = piled_up(cluster, namespace, "Deployment", SYNCS["Flux"])
    modules.restart(**identity(web))
    found = json.loads(cluster.kubectl("get", "deployment", "web", "-n", namespace, "-o", "json", "--show-managed-fields"))
    owners = {entry["manager"] for entry in found["metadata"]["managedFields"] if "restartedAt" in json.dumps(entry["fieldsV1"])}
    assert owners == {MANAGER}, "Flux takes over the fields of managers whose names begin with kubectl"


def test_a_sync_that_replaces_the_object_undoes_the_restart_by_a_second_rollout(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = piled_up(cluster, namespace, "Deployment", SYNCS["Argo CD"])
    modules.restart(**identity(web), spread_constraint="add", force_managed=True)
    assert restarted_at(cluster, web) and outcome(cluster, web)
    pods = pod_uids(cluster, web)

    sync(cluster, REPLACE, web)

    assert restarted_at(cluster, web) is None and outcome(cluster, web) is None
    assert "topologySpreadConstraints" not in read(cluster, web)["spec"]["template"]["spec"]
    wait_rolled_out(cluster, web)
    assert not set(pod_uids(cluster, web)) & set(pods)
