# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surplus pods evicted one by one on a real control plane: which, how many at a time, and what ends it."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import (
    deployment,
    identity,
    outcome,
    pile_up,
    pod_uids,
    stateful_set,
)

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def evict(modules: Modules, manifest: dict[str, Any], **params: Any) -> dict[str, Any]:
    """The only line of a run over one listed workload."""
    done = modules.restart(workloads=[identity(manifest)], strategy="evict_surplus", **params)
    line: dict[str, Any] = done["workloads"][0]
    return line


def test_a_piled_up_deployment_is_evened_out_one_pod_at_a_time(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 4)
    pile_up(cluster, web)
    line = evict(modules, web)
    assert (line["action"], line["verdict"]) == ("evicted", "improved"), line
    assert sorted(line["after"][HOST].values()) == [0, 0, 1, 1, 1, 1]
    assert len(line["evicted"]) == 3
    print(line)
    assert outcome(cluster, web)["attempts"] == 0
