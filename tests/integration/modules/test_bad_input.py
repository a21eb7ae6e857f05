# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input gets an error that names what was wrong and what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory, delete_namespace
from tests.integration.modules.module_process import COLLECTIONS, Modules, result_of, run_module, start_module
from tests.integration.workloads import deployment, identity, pile_up, wait_until


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"namespace_annotation": "allowed"}, ["namespace_annotation", "'allowed'", "key=value"]),
        ({"namespace_annotation": "bad key=x"}, ["namespace_annotation", "'bad key=x'"]),
        ({"label_selector": "app=("}, ["label_selectors: ", "'app=('"]),
        ({"label_selectors": ["app=web", "app in (web"]}, ["label_selectors: ", "'app in (web'"]),
        ({"label_selectors": ["app=web", ""]}, ["label_selectors: ''"]),
        ({"topology_keys": ["not a key"]}, ["topology_keys", "'not a key'", "topology.kubernetes.io/zone"]),
        ({"topology_keys": []}, ["topology_keys", "empty"]),
        ({"topology_keys": ["topology.kubernetes.io/zonee"]}, ["topology_keys", "no node has", "have: topology.kubernetes.io/zone"]),
        ({"namespaces": []}, ["namespaces", "empty"]),
        ({"namespaces": ["No_Such"]}, ["namespaces", "'No_Such'"]),
        ({"namespaces": ["no-such"]}, ["there is no namespace no-such", "check the spelling"]),
        ({"max_skew": -1}, ["max_skew", "-1", "at least 1"]),
        ({"min_ready_nodes": 0}, ["min_ready_nodes", "0", "at least 1"]),
        ({"kinds": ["DaemonSet"]}, ["kinds", "DaemonSet", "Deployment"]),
        ({"min_ready_nodes": "many"}, ["min_ready_nodes", "many"]),
    ],
)
def test_options_of_the_check(modules: Modules, params: dict[str, Any], words: list[str]) -> None:
    failed = modules.run("k8s_spread_check", **params)
    assert failed["failed"], failed
    for word in words:
        assert word in failed["msg"], failed["msg"]


def test_null_is_not_taken_for_the_empty_annotation_of_all_namespaces(modules: Modules) -> None:
    """ansible-core 2.21 makes an empty text of null if an option has a default."""
    result = modules.run("k8s_spread_check", namespace_annotation=None)
    assert not result.get("failed") and result["options"]["namespace_annotation"] == "kube-scheduling.onprem/spread=allow", result


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"wait_timeout": 0}, ["wait_timeout", "0", "at least 1"]),
        ({"wait_sleep": -5}, ["wait_sleep", "-5"]),
        ({"cooldown": -1}, ["cooldown", "-1", "at least 0"]),
        ({"max_attempts": 0}, ["max_attempts", "0"]),
        ({"max_parallel": 0}, ["max_parallel", "0"]),
        ({"strategy": "brutal"}, ["strategy", "brutal", "rollout"]),
        ({"kind": "DaemonSet"}, ["kind", "DaemonSet", "StatefulSet"]),
        ({"namespace": None}, ["namespace"]),
        ({"workloads": []}, ["mutually exclusive"]),
        ({"name": "no-such"}, ["there is no Deployment no-such in namespace default", "check the spelling"]),
        ({"namespace": "no-such"}, ["there is no Deployment web in namespace no-such"]),
        ({"topology_keys": ["no/such"]}, ["topology_keys", "no node has the label no/such"]),
    ],
)
def test_options_of_the_restart(modules: Modules, params: dict[str, Any], words: list[str]) -> None:
    given = {"kind": "Deployment", "namespace": "default", "name": "web", **params}
    failed = modules.restart(**{name: value for name, value in given.items() if value is not None})
    assert failed["failed"], failed
    for word in words:
        assert word in failed["msg"], failed["msg"]


def test_no_workloads_is_nothing_to_do(modules: Modules) -> None:
    result = modules.restart(workloads=[])
    assert not result.get("failed") and result["changed"] is False and result["workloads"] == []


class TestConnection:
    """Errors before anything could be read."""

    def failure(self, **params: Any) -> str:
        failed = run_module("k8s_spread_check", params)
        assert failed["failed"], failed
        message: str = failed["msg"]
        return message

    def test_nobody_listens(self) -> None:
        message = self.failure(host="https://127.0.0.1:1", api_key="x", validate_certs=False)
        assert "API server https://127.0.0.1:1" in message and "refused" in message

    def test_a_kubeconfig_that_does_not_exist(self, tmp_path: Path) -> None:
        message = self.failure(kubeconfig=str(tmp_path / "nowhere"))
        assert "cannot connect to Kubernetes" in message and "nowhere" in message

    def test_a_kubeconfig_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "config"
        path.write_text("{ this is: [not a kubeconfig", encoding="utf-8")
        assert "cannot connect to Kubernetes" in self.failure(kubeconfig=str(path))

    def test_a_context_that_does_not_exist(self, modules: Modules) -> None:
        message = self.failure(kubeconfig=str(modules.kubeconfig), context="nowhere")
        assert f"kubeconfig {modules.kubeconfig}, context nowhere: there is no context nowhere in it; it has lab-" in message

    def test_a_missing_library_comes_with_the_command_that_installs_it(self, tmp_path: Path) -> None:
        (tmp_path / "msgspec.py").write_text("raise ImportError('none here')", encoding="utf-8")
        failed = result_of(start_module("k8s_spread_check", {}, env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{COLLECTIONS}"}))
        assert failed["failed"] and f"{sys.executable} -m pip install --upgrade kubernetes msgspec" in failed["msg"]

    def test_an_expired_token(self, cluster: Cluster) -> None:
        message = self.failure(host=cluster.server, api_key="expired", validate_certs=False)
        assert "HTTP 401" in message and "renew the token" in message

    def test_a_token_with_a_line_break_is_not_repeated_in_the_message(self, cluster: Cluster) -> None:
        process = start_module("k8s_spread_check", {"host": cluster.server, "api_key": "geheim\nx", "validate_certs": False})
        output, errors = process.communicate(timeout=60)
        assert "no HTTP header may have" in output and "geheim" not in output + errors

    def test_a_certificate_that_is_not_trusted(self, cluster: Cluster) -> None:
        message = self.failure(host=cluster.server, api_key="x", validate_certs=True)
        assert "no answer from " in message and "certificate" in message


class TestPermissions:
    """Credentials that may not see everything."""

    def grant(self, cluster: Cluster, name: str, rules: list[dict[str, Any]], *, namespaces: list[str] | None = None) -> Modules:
        kubeconfig = cluster.service_account(name, cluster_role=None)
        api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        cluster.apply({**api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        binding = {**api, "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        if namespaces is None:
            cluster.apply({**binding, "kind": "ClusterRoleBinding"})
        for namespace in namespaces or ():
            cluster.apply({**binding, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace}})
        return Modules(kubeconfig)

    def test_no_rights_name_the_verb_and_the_resource(self, cluster: Cluster) -> None:
        failed = self.grant(cluster, "nobody", []).run("k8s_spread_check")
        assert failed["failed"] and "cannot list nodes" in failed["msg"] and "Grant the verb 'list' on nodes" in failed["msg"]

    def test_a_namespace_that_may_not_be_read_is_skipped_and_the_rest_is_judged(
        self, cluster: Cluster, modules: Modules, namespace: str
    ) -> None:
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "vault", "annotations": {"kube-scheduling.onprem/spread": "allow"}},
            }
        )
        self.grant(cluster, "sees-nodes", [{"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["list"]}])
        rules = [{"apiGroups": ["", "apps", "policy", "autoscaling"], "resources": ["*"], "verbs": ["get", "list"]}]
        self.grant(cluster, "sees-app", rules, namespaces=[namespace])
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sees-nodes"}
        subject = {"kind": "ServiceAccount", "name": "sees-app", "namespace": "default"}
        cluster.apply({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "sees-both"},
            "roleRef": reference, "subjects": [subject],
        })  # fmt: skip
        pile_up(cluster, deployment(namespace, "web", 2))
        result = Modules(cluster.service_account("sees-app", cluster_role=None)).run("k8s_spread_check")
        assert not result.get("failed"), result
        assert "vault" in {entry["namespace"] for entry in result["skipped_namespaces"]}
        assert all(entry["reason"] == "unreadable" and "cannot list" in entry["message"] for entry in result["skipped_namespaces"])
        (web,) = result["workloads"]
        assert (web["verdict"], web["restart_helps"]) == ("collapsed", None)
        assert [blocker["reason"] for blocker in web["blockers"]] == ["pods_not_readable"]


class TestOddClusters:
    """Things that are allowed and rare."""

    def test_no_nodes(self, fresh_cluster: ClusterFactory) -> None:
        result = Modules(fresh_cluster(None).kubeconfig).run("k8s_spread_check")
        assert not result.get("failed") and result["nodes"] == {"total": 0, "ready": 0, "eligible": 0}
        assert result["reason"] == "too_few_ready_nodes"

    def test_nodes_without_labels_and_pods_without_owner(self, cluster: Cluster, modules: Modules, namespace: str) -> None:
        pile_up(cluster, deployment(namespace, "web", 2))
        metadata = {"name": "bare", "annotations": {"kwok.x-k8s.io/node": "fake"}}
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        cluster.apply({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"nodeName": "bare", "containers": [{"name": "main", "image": "x"}]},
        })  # fmt: skip
        try:
            wait_until(lambda: '"Ready","status":"True"' in json.dumps(_conditions(cluster, "bare"), separators=(",", ":")))
            (web,) = modules.check(namespace)["workloads"]
            assert web["verdict"] == "collapsed" and web["placed"] == 2
        finally:
            cluster.kubectl("delete", "node", "bare")

    def test_lists_that_the_server_writes_as_null(self, cluster: Cluster, modules: Modules, namespace: str) -> None:
        metadata = {"name": "none", "namespace": namespace}
        cluster.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": []}})
        assert not modules.check(namespace).get("failed")

    def test_the_longest_name_there_is(self, cluster: Cluster, modules: Modules, namespace: str) -> None:
        web = deployment(namespace, "web", 2)
        web["metadata"]["name"] = "w" * 253
        pile_up(cluster, web)
        result = modules.restart(workloads=[identity(web)])
        assert result["workloads"][0]["outcome"] == "improved" and not result.get("warnings"), result
        delete_namespace(cluster.api, "vault")

    def test_a_namespace_that_is_being_deleted(self, cluster: Cluster, modules: Modules) -> None:
        metadata = {"name": "leaving", "annotations": {"kube-scheduling.onprem/spread": "allow"}}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        cluster.wait_namespace("leaving")
        web = deployment("leaving", "web", 2)
        pile_up(cluster, web)
        cluster.kubectl(
            "patch", "deployment", "web", "-n", "leaving", "--type=merge", "-p", '{"metadata":{"finalizers":["tests.onprem/hold"]}}'
        )
        cluster.kubectl("delete", "namespace", "leaving", "--wait=false")
        try:
            wait_until(lambda: cluster.get("/api/v1/namespaces/leaving")["status"]["phase"] == "Terminating")
            (line,) = modules.check("leaving")["workloads"]
            assert (line["verdict"], line["reason"]) == ("skipped", "namespace_terminating")
            assert modules.restart(**identity(web))["workloads"][0]["reason"] == "namespace_terminating"
        finally:
            cluster.kubectl("patch", "deployment", "web", "-n", "leaving", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            delete_namespace(cluster.api, "leaving")


def _conditions(cluster: Cluster, node: str) -> list[dict[str, str]]:
    conditions = cluster.get(f"/api/v1/nodes/{node}").get("status", {}).get("conditions", [])
    return [{"type": condition["type"], "status": condition["status"]} for condition in conditions]
