# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of the check goes to the restart as it is, and selects namespaces and workloads by labels."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.selector_text import label_requirements, match_labels

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, known_outcome, lay_out, pile_up, restarted_at, wait_until

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def test_rollout_of_a_check_takes_its_restartable_workloads_and_its_options(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web, slanted = deployment(namespace, "web", 2), deployment(namespace, "slanted")
    pile_up(cluster, web)
    lay_out(cluster, slanted, 3, 1, 0)
    zone = {"topology_keys": [ZONE]}
    spread = modules.check(namespace, **zone)
    assert spread["restartable"] == [identity(web)] and spread["options"]["topology_keys"] == [ZONE]
    done = modules.restart(check=spread)
    assert [(entry["name"], entry["action"], entry["outcome"]) for entry in done["workloads"]] == [("web", "restarted", "improved")], done
    assert list(done["workloads"][0]["before"]) == [ZONE]
    assert restarted_at(cluster, slanted) is None


def test_auto_takes_what_is_uneven_with_the_max_skew_of_the_check(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web, slanted = deployment(namespace, "web", 2), deployment(namespace, "slanted")
    pile_up(cluster, web)
    lay_out(cluster, slanted, 3, 1, 0)
    spread = modules.check(namespace, max_skew=1)
    assert {entry["name"]: entry["verdict"] for entry in spread["workloads"]} == {"web": "collapsed", "slanted": "skewed"}, spread
    done = modules.restart(check=spread, strategy="auto")["workloads"]
    assert {entry["name"]: entry["action"] for entry in done} == {"web": "restarted", "slanted": "evicted"}, done


def test_restart_that_was_not_checked_is_checked_by_the_next_run_over_a_check(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    modules.restart(check=modules.check(namespace), wait=False)
    assert known_outcome(cluster, web)["outcome"] == "pending"
    wait_until(lambda: modules.check(namespace)["summary"]["rolling"] == 0, what="the end of the rollout")
    spread = modules.check(namespace)
    assert spread["restartable"] == [] and spread["interrupted"] == [identity(web)]
    (entry,) = modules.restart(check=spread)["workloads"]
    assert (entry["action"], entry["outcome"]) == ("skipped", "improved"), entry


def test_check_without_findings_restarts_nothing(cluster: Cluster, modules: Modules, namespace: str) -> None:
    done = modules.restart(check=modules.check(namespace))
    assert (done["changed"], done["failed"], done["workloads"]) == (False, False, [])


def test_failed_check_and_conflicting_options_are_refused(modules: Modules, namespace: str) -> None:
    spread = modules.check(namespace)
    refused = modules.run("k8s_rollout_restart", check=modules.run("k8s_spread_check", namespaces=["no-such"]))
    assert refused["failed"] and "check: the task with k8s_spread_check failed: namespaces: there is no namespace no-such" in refused["msg"]
    for conflicting in ({"workloads": []}, {"kind": "Deployment", "namespace": namespace, "name": "web"}):
        assert "mutually exclusive" in modules.run("k8s_rollout_restart", check=spread, **conflicting)["msg"]


def test_workloads_are_selected_by_all_selectors(cluster: Cluster, modules: Modules, namespace: str) -> None:
    for name, labels in {"a": {"app": "a", "tier": "front"}, "b": {"app": "b", "tier": "front"}, "c": {"app": "c"}}.items():
        cluster.apply(deployment(namespace, name, 2) | {"metadata": {"name": name, "namespace": namespace, "labels": labels}})

    def found(*selectors: str) -> set[str]:
        result = modules.check(namespace, label_selectors=list(selectors) or None, include_healthy=True)
        return {entry["name"] for entry in result["workloads"]}

    assert found() == {"a", "b", "c"}
    assert found("tier") == {"a", "b"} and found("tier=front", "app in (b,c)") == {"b"}
    nothing = modules.check(namespace, label_selector="tier=none")
    assert (nothing["reason"], nothing["workloads"]) == ("no_workload", []) and "tier=none" in nothing["message"]


@pytest.fixture
def labelled(cluster: Cluster, namespace: str) -> str:
    """A namespace with labels, and a piled-up workload in it."""
    cluster.api.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"team": "shop", "size": "3", "empty": ""}}})
    pile_up(cluster, deployment(namespace, "web", 2))
    return namespace


SELECTORS = (
    "team", "!team", "team=shop", "team==shop", "team!=shop", "team=", "empty=", "empty", "none!=x", "none notin (x)", "none in (x)",
    "team in (shop,web)", "team notin (shop, web)", "size>2", "size>3", "size<4", "size<3", "team>1", "team=shop,size>2",
    "team=shop,!size", "team in ()", "empty in ()", "  team = shop  ", "team in(shop)", "team,", ",team", "team=shop,,size",
    "team=shop size", "(team)", "team in", "team in (shop", "team=(shop)", "!team=shop", "team>x", "team<", "=shop", "te am",
    "team===shop", "team=sh op", "-team", "team=-shop", "a/b/c", "UPPER.case/x", "team!shop", "team=!shop", "in in (in)", "notin",
    "team => shop", "size > 2", "size>-1", "size>02",
)  # fmt: skip


def test_namespaces_are_selected_as_the_api_server_selects_them(cluster: Cluster, modules: Modules, labelled: str) -> None:
    path = f"/api/v1/namespaces?fieldSelector=metadata.name%3D{labelled}&labelSelector="
    labels = cluster.get(f"/api/v1/namespaces/{labelled}")["metadata"]["labels"]

    def of_server(selector: str) -> bool | None:
        response = cluster.api.request("GET", path + urllib.parse.quote(selector))
        return None if response.status == http.client.BAD_REQUEST else bool(json.loads(response.body)["items"])

    def of_check(selector: str) -> bool | None:
        try:
            return match_labels(label_requirements({"x": [selector]}, "x"), labels)
        except OptionError:
            return None

    server = {selector: of_server(selector) for selector in SELECTORS}
    assert {True, False, None} == set(server.values())
    assert {selector: of_check(selector) for selector in SELECTORS} == server
    for selector, listed in (("team=shop,size>2", True), ("team=web", False)):
        result = modules.run("k8s_spread_check", namespace_label_selectors=[selector])
        assert (labelled in {entry["namespace"] for entry in result["workloads"]}) is listed, result
    assert modules.run("k8s_spread_check", namespace_label_selectors=["team in (shop"])["msg"].startswith("namespace_label_selectors: ")


def test_excluded_namespaces_are_not_checked_also_if_they_are_named(cluster: Cluster, modules: Modules, labelled: str) -> None:
    def checked(**options: Any) -> set[str]:
        return {entry["namespace"] for entry in modules.run("k8s_spread_check", **options)["workloads"]}

    assert labelled in checked() and labelled not in checked(exclude_namespaces=[labelled])
    assert labelled in checked(exclude_namespaces=["no-such-namespace"])
    alone = modules.run("k8s_spread_check", namespaces=[labelled], exclude_namespaces=[labelled])
    assert (alone["reason"], alone["workloads"], alone["skipped_namespaces"]) == ("no_namespace", [], [])


def test_named_namespace_without_the_labels_is_skipped_with_the_reason(modules: Modules, labelled: str) -> None:
    result = modules.run("k8s_spread_check", namespaces=[labelled], namespace_label_selectors=["team=other"])
    (skipped,) = result["skipped_namespaces"]
    assert (skipped["namespace"], skipped["reason"]) == (labelled, "labels_not_matched") and "team=other" in skipped["message"]
    unnamed = modules.run("k8s_spread_check", namespace_label_selectors=["team=other"])
    assert unnamed["skipped_namespaces"] == [] and unnamed["reason"] == "no_namespace"
    assert "namespace_label_selectors is team=other" in unnamed["message"]
