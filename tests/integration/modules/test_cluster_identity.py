# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""k8s_cluster_identity, and the key cluster in the results of the other modules, also of failed ones."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of, line_of
from tests.integration.modules.module_process import Modules


def test_the_cluster_is_named_with_its_version(cluster: Cluster, modules: Modules) -> None:
    result = modules.run("k8s_cluster_identity")
    assert (result["cluster"], result["line"], result["changed"]) == (identity_of(cluster), line_of(cluster), False)
    assert result["version"] == cluster.get("/version")["gitVersion"] and abs(result["clock_skew_s"]) <= 2


@pytest.mark.parametrize(
    ("module", "params", "fails"),
    [
        ("k8s_spread_check", {}, False),
        ("k8s_spread_check", {"namespaces": ["missing"]}, True),
        ("k8s_rollout_restart", {"workloads": []}, False),
        ("k8s_rollout_restart", {"kind": "Deployment", "namespace": "missing", "name": "web"}, True),
        ("k8s_critical_rescue", {"check_mode": True}, False),
    ],
)
def test_each_result_names_the_cluster(cluster: Cluster, modules: Modules, module: str, params: dict[str, Any], fails: bool) -> None:
    result = modules.run(module, **params)
    assert result["cluster"] == identity_of(cluster) and bool(result.get("failed")) == fails, result


def test_a_server_that_does_not_answer_is_named(modules: Modules) -> None:
    result = modules.run("k8s_cluster_identity", host="https://127.0.0.1:1")
    assert result["failed"] and result["cluster"]["server"] == result["cluster"]["name"] == "https://127.0.0.1:1", result
