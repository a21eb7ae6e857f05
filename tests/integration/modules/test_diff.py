# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--diff`` shows what a restart and evictions change, and what they would change in check mode."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import RESTARTED_AT, deployment, identity, lay_out, pile_up, pods_of, restarted_at, workers


def annotations(side: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = side["spec"]["template"]["metadata"]["annotations"]
    return found


def test_diff_of_a_restart_is_the_annotation_of_the_pod_template(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    (plan,) = modules.restart(workloads=[identity(web)], check_mode=True, diff=True)["diff"]
    assert plan["before_header"] == plan["after_header"] == f"Deployment {namespace}/web"
    assert annotations(plan["before"]) == {} and set(annotations(plan["after"])) == {RESTARTED_AT}
    (first,) = modules.restart(workloads=[identity(web)], diff=True)["diff"]
    stamp = restarted_at(cluster, web)
    assert (annotations(first["before"]), annotations(first["after"])) == ({}, {RESTARTED_AT: stamp})
    (second,) = modules.restart(**identity(web), diff=True, wait=False)["diff"]
    assert (annotations(second["before"]), annotations(second["after"])) == (
        {RESTARTED_AT: stamp},
        {RESTARTED_AT: restarted_at(cluster, web)},
    )


@pytest.mark.parametrize("check_mode", [True, False])
def test_diff_of_evictions_is_the_pods_by_node(cluster: Cluster, modules: Modules, namespace: str, check_mode: bool) -> None:
    web = deployment(namespace, "web")
    lay_out(cluster, web, 3, 1, 0)
    homes: dict[str, list[str]] = {}
    for pod in sorted(pods_of(cluster, web), key=lambda pod: pod["metadata"]["name"]):
        homes.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
    done = modules.restart(workloads=[identity(web)], strategy="evict_surplus", max_evictions=1, check_mode=check_mode, diff=True)
    (change,), (entry,) = done["diff"], done["workloads"]
    assert change["before"] == {"pods": homes}
    first = workers(cluster)[0]
    gone = {first: [name for name in homes[first] if name != entry["evicted"][0]["pod"]]}
    assert change["after"] == {"pods": {**homes, **gone}} and len(gone[first]) == 2


def test_nothing_to_change_has_an_empty_diff_and_without_the_option_there_is_none(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    web = deployment(namespace, "web", 2)
    lay_out(cluster, web, 1, 1)
    assert modules.restart(workloads=[identity(web)], diff=True)["diff"] == []
    assert "diff" not in modules.restart(workloads=[identity(web)])
