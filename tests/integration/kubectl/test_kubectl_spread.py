# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubectl spread`` from the wheel, called by the real kubectl, on a real control plane."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import binaries
from lab.cluster import Cluster
from tests.integration.kubectl.conftest import Kubectl
from tests.integration.kubernetes_version import MINOR
from tests.integration.modules.module_process import Modules
from tests.integration.modules.test_documented_permissions import LOOK
from tests.integration.requests_seen import requests_seen
from tests.integration.workloads import deployment, lay_out, pile_up, pod_uids
from tests.unit.report.results import data_of_page
from tests.unit.support.documented_results import differences

READING = {"get", "list"}


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Path]:
    """The kubeconfig of a user with the rights that docs/rebalance.md documents for checks, and no others."""
    cluster.apply(LOOK)
    cluster.wait_namespace("kube-scheduling")
    yield cluster.service_account("rebalance", namespace="kube-scheduling", cluster_role=None)
    # With its namespace: tests of the roles list what has such names.
    cluster.kubectl("delete", "--filename", "-", "--ignore-not-found", input=LOOK)


def test_kubectl_lists_the_plugin_without_a_warning(kubectl: Kubectl) -> None:
    answer = kubectl.run("plugin", "list", "--name-only")
    assert answer.returncode == 0 and answer.stdout.split("\n")[-2] == "kubectl-spread"
    assert "warning" not in answer.stderr


def test_a_collapsed_workload_is_found_and_nothing_is_changed(kubectl: Kubectl, cluster: Cluster, namespace: str, reader: Path) -> None:
    web = deployment(namespace, "web")
    pile_up(cluster, web)
    cluster.kubectl("annotate", "namespace", namespace, "kube-scheduling.onprem/spread-")
    before, since = pod_uids(cluster, web), cluster.audit().mark()
    answer = kubectl.spread("-n", namespace, kubeconfig=reader)
    assert answer.returncode == 1 and answer.stderr == ""
    assert f"deploy {namespace}/web" in answer.stdout and "collapsed, a restart helps" in answer.stdout
    assert "\x1b" not in answer.stdout, "the output is piped"
    sent = requests_seen(cluster, since, user_agent="onprem.kube_scheduling/kubectl-spread")
    assert sent and {event.verb for event in sent} <= READING
    assert pod_uids(cluster, web) == before


def test_a_spread_workload_is_healthy(kubectl: Kubectl, cluster: Cluster, namespace: str) -> None:
    lay_out(cluster, deployment(namespace, "web"), 2, 1)
    answer = kubectl.spread("-n", namespace)
    assert (answer.returncode, answer.stderr) == (0, "") and "healthy" in answer.stdout
    skewed = kubectl.spread("-n", namespace, "--max-skew=1")
    assert skewed.returncode == 1 and "skewed" in skewed.stdout


def test_json_and_yaml_are_the_result_of_the_module(kubectl: Kubectl, cluster: Cluster, modules: Modules, namespace: str) -> None:
    pile_up(cluster, deployment(namespace, "web"))
    found = json.loads(kubectl.spread("-n", namespace, "-o", "json").stdout)
    assert differences("k8s_spread_check", {**found, "changed": False}) == []
    expected = modules.check(namespace, namespace_annotation="", include_healthy=True, include_nodes=True)
    ansible_only = {"changed", "invocation", "failed"}
    assert found == {key: value for key, value in expected.items() if key not in ansible_only}
    assert yaml.safe_load(kubectl.spread("-n", namespace, "-o", "yaml").stdout) == found


def test_the_page_and_the_summary_are_made_from_the_wheel(kubectl: Kubectl, cluster: Cluster, namespace: str) -> None:
    pile_up(cluster, deployment(namespace, "web"))
    page = kubectl.spread("-n", namespace, "-o", "html")
    assert (page.returncode, page.stderr) == (1, "")
    (row,) = data_of_page(page.stdout)["workloads"]
    assert (row["name"], row["before"]["verdict"], row["action"]) == ("web", "collapsed", "a restart helps")
    assert f"| Deployment {namespace}/web | 3 | 3 on " in kubectl.spread("-n", namespace, "-o", "markdown").stdout


def test_the_namespace_of_the_context_counts(kubectl: Kubectl, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    pile_up(cluster, deployment(namespace, "web"))
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = namespace
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    assert f"deploy {namespace}/web" in kubectl.spread(f"--kubeconfig={file}").stdout
    empty = kubectl.spread()
    assert empty.returncode == 0
    assert empty.stderr == "No Deployment or StatefulSet in default. --all-namespaces checks all namespaces.\n"


def test_errors_have_their_exit_codes(kubectl: Kubectl, cluster: Cluster) -> None:
    for flags, code, text in (
        (("-n", "nowhere"), 2, "error: --namespace: there is no namespace nowhere"),
        (("-A", "--topology-key=topology.kubernetes.io/zonee"), 2, "similar ones that nodes have: topology.kubernetes.io/zone"),
        (("--colour",), 2, "error: --colour is not a flag"),
        (("--server=https://127.0.0.1:1",), 3, "API server https://127.0.0.1:1"),
        (("-A", "--as=nobody"), 3, "Grant the verb 'list' on nodes to this user"),
    ):
        answer = kubectl.spread(*flags)
        assert (answer.returncode, answer.stdout) == (code, ""), flags
        assert text in answer.stderr and "Traceback" not in answer.stderr


def test_workloads_by_name_are_checked_and_an_unknown_one_is_an_error_as_in_kubectl(
    kubectl: Kubectl, cluster: Cluster, namespace: str
) -> None:
    pile_up(cluster, deployment(namespace, "web"))
    lay_out(cluster, deployment(namespace, "api"), 1, 1, 1)
    one = kubectl.spread("deploy/api", "-n", namespace)
    assert (one.returncode, one.stderr) == (0, "") and "/api" in one.stdout and "/web" not in one.stdout
    both = json.loads(kubectl.spread("-n", namespace, "deployment", "web", "api", "-o", "json").stdout)
    assert [entry["name"] for entry in both["workloads"]] == ["api", "web"] and both["summary"]["collapsed"] == 1
    for words in (["deploy/api", "deploy/wep"], ["deploy/wep"], ["sts/web"], ["deploy,sts", "api"]):
        expected, found = kubectl.run("get", "-n", namespace, "-o", "name", *words), kubectl.spread("-n", namespace, *words)
        assert found.returncode == expected.returncode == 1, words
        # Each of them names what was not found, and shows the others.
        assert expected.stderr.count("not found") == found.stderr.count("there is no") == 1
        assert ("/api" in found.stdout) is ("/api" in expected.stdout)
    for words in (["deploy/api", "-A"], ["deploy", "api", "-l", "a=b"], ["deploy/api", "sts"], ["deploys/api"], ["deploy/a/b"]):
        assert kubectl.run("get", *words).returncode == 1 and kubectl.spread(*words).returncode == 2, words


def users_that_list_nodes(cluster: Cluster, since: int) -> dict[str, tuple[Any, Any]]:
    """The user and the impersonated user of each program that has listed the nodes, from the audit log."""
    lines = cluster.audit().path.read_bytes()[since:].splitlines()
    events = [json.loads(line) for line in lines if b'"resource":"nodes"' in line and b'"verb":"list"' in line]
    return {event["userAgent"].partition("/")[0]: (event["user"]["username"], event.get("impersonatedUser")) for event in events}


def test_connection_flags_select_the_same_server_and_user_as_in_kubectl(
    kubectl: Kubectl, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The audit log of the API server has the users of both."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    (right,), (admin,) = content["clusters"], content["users"]
    nowhere = {"server": "https://127.0.0.1:1", "certificate-authority-data": right["cluster"]["certificate-authority-data"]}
    content["clusters"] = [{"name": "nowhere", "cluster": nowhere}, {"name": "right", "cluster": right["cluster"]}]
    content["users"] = [{"name": "nobody", "user": {}}, {"name": "admin", "user": admin["user"]}]
    context = {"cluster": "nowhere", "user": "nobody", "namespace": namespace}
    content["contexts"], content["current-context"] = [{"name": "broken", "context": context}], "broken"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    pem = {}
    for name in ("client-certificate", "client-key"):
        pem[name] = tmp_path / name
        pem[name].write_bytes(base64.b64decode(admin["user"][f"{name}-data"]))
    login, server = ["--user=admin"], right["cluster"]["server"]
    files = [f"--{name}={file}" for name, file in pem.items()]
    impersonated = ["--as=bob", "--as-uid=7", "--as-group=system:masters", "--as-group=a,b"]
    if MINOR >= 35:  # the first kubectl that has it
        impersonated.append("--as-user-extra=Scope/x=1")
    for flags in (
        [*login, "--cluster=right"],
        [*login, f"--server={server}"],
        [*files, "--cluster=right", "--request-timeout=30"],
        [*login, "--cluster=right", "--tls-server-name=localhost"],
        [*login, "--cluster=right", "--insecure-skip-tls-verify=true"],
        [*login, "--cluster=right", *impersonated],
    ):
        since = cluster.audit().mark()
        other = kubectl.run("get", "nodes", "-o", "name", *flags, kubeconfig=tmp_path / "kubeconfig")
        own = kubectl.spread(*flags, kubeconfig=tmp_path / "kubeconfig")
        assert (own.returncode, other.returncode) == (0, 0), (flags, own.stderr, other.stderr)
        users = users_that_list_nodes(cluster, since)
        assert users["kubectl"] == users["onprem.kube_scheduling"], flags
        assert bool(users["kubectl"][1]) is (flags[-1] == impersonated[-1])
    for flags in (
        [],
        login,
        ["--cluster=right"],
        [*login, "--cluster=right", "--tls-server-name=x"],
        [*login, "--cluster=right", "--user=you"],
    ):
        assert kubectl.run("get", "nodes", *flags, kubeconfig=tmp_path / "kubeconfig").returncode == 1, flags
        assert kubectl.spread(*flags, kubeconfig=tmp_path / "kubeconfig").returncode in (2, 3), flags


def test_kubectl_completes_flags_and_values_from_the_cluster(kubectl: Kubectl, namespace: str) -> None:
    def proposed(*words: str) -> list[str]:
        return kubectl.run("__complete", "spread", *words).stdout.splitlines()

    assert proposed("--all") == ["--all-namespaces\tcheck all namespaces", ":4"]
    assert namespace in proposed("-n", "") and proposed("-n", namespace[:-1])[-1] == ":4"
    assert proposed("--topology-key=topology.kubernetes.io/") == ["topology.kubernetes.io/zone", ":4"]
    assert proposed("-o", "js") == ["json", ":4"]
    assert proposed("--as=nobody", "-n", "") == [":4"], "an error of the cluster is not shown"
    assert proposed("dep") == ["deployment", ":4"]


def test_kubectl_completes_names_of_workloads(kubectl: Kubectl, cluster: Cluster, namespace: str) -> None:
    for name in ("web", "api"):
        pile_up(cluster, deployment(namespace, name))
    for before, word in (
        ("deployment", ""),
        ("deployment", "w"),
        ("deployment web", ""),
        ("", "deployment/"),
        ("deployment/web", "deployment/a"),
    ):
        words = ["-n", namespace, *before.split(), word]
        own, other = (kubectl.run("__complete", command, *words).stdout.splitlines() for command in ("spread", "get"))
        assert own == other, words


@pytest.mark.parametrize(("environment", "colored"), [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)])
def test_a_terminal_has_colours(kubectl: Kubectl, cluster: Cluster, namespace: str, environment: dict[str, str], colored: bool) -> None:
    pile_up(cluster, deployment(namespace, "web"))
    own, given = pty.openpty()
    path = f"{kubectl.programs}:{binaries.ensure()}:{os.defpath}"
    process = subprocess.Popen(
        ["kubectl", "spread", "-n", namespace],
        env={"PATH": path, "KUBECONFIG": str(kubectl.kubeconfig), **environment},
        stdout=given,
        stderr=given,
        stdin=given,
    )
    os.close(given)
    assert process.wait(60) == 1
    text = os.read(own, 100_000).decode()
    os.close(own)
    assert ("\x1b[31m" in text) is colored and f"deploy {namespace}/web" in text


def test_the_wheel_needs_no_ansible(installed: Path) -> None:
    found = json.loads(subprocess.run([str(installed / "pip"), "list", "--format=json"], capture_output=True, text=True, check=True).stdout)
    names = {entry["name"].lower().replace("_", "-") for entry in found}
    assert "onprem-kube-scheduling" in names and not {name for name in names if name.startswith("ansible")}
    program = "import ansible_collections.onprem.kube_scheduling.services.rebalancer.settings as found; print(found.PROGRAM.name)"
    answer = subprocess.run([str(installed / "python"), "-c", program], capture_output=True, text=True, cwd="/")
    assert answer.stdout == "rebalancer\n", answer.stderr
