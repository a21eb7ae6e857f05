# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass of the rebalancer on a real control plane: what it moves, logs and publishes, and its exit code."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of
from tests.integration.modules.module_process import Modules
from tests.integration.rebalancer.conftest import Start
from tests.integration.rebalancer.held_rollouts import pile_up_held, released
from tests.integration.rebalancer.program import Rebalancer, holder, samples
from tests.integration.workloads import (
    deployment,
    known_outcome,
    outcome,
    pile_up,
    pods_of,
    restarted_at,
    wait_until,
)


def nodes_of(cluster: Cluster, web: dict[str, object]) -> int:
    return len({pod["spec"]["nodeName"] for pod in pods_of(cluster, web)})


def test_a_pass_spreads_a_piled_up_deployment(cluster: Cluster, namespace: str, rebalancers: Start, tmp_path: Path) -> None:
    web = deployment(namespace, "web")
    pile_up(cluster, web)
    file = tmp_path / "rebalance.prom"
    done = rebalancers(f"--metrics-path={file}", "--spread-constraint=add")
    assert done.code() == 0, done.log.read_text()
    assert nodes_of(cluster, web) == 3 and known_outcome(cluster, web)["outcome"] == "improved"
    assert tuple(done.lines[0][field] for field in ("cluster", "context", "server")) == tuple(identity_of(cluster).values())
    line = done.decision("web")
    assert (line["verdict"], line["action"], line["reason"], line["outcome"]) == ("collapsed", "restarted", "collapsed", "improved")
    assert line["workload"] == f"Deployment {namespace}/web" and "all 3 placed replicas" in line["text"]
    assert line["text"].endswith("the restart adds spread constraints over kubernetes.io/hostname, topology.kubernetes.io/zone")
    (end,) = done.said("pass ended")
    assert (end["ok"], end["collapsed_before"], end["collapsed_after"], end["restarted"]) == (True, 1, 0, 1)
    assert holder(cluster) == "", "the Lease is released"
    found = samples(file.read_text())
    assert (found["healthy"], found["collapsed"], found["failed"]) == (1, 0, 0), f"{found}\n{done.log.read_text()}"
    assert found["last_run_timestamp_seconds"] > 1.5e9 and file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.glob(".*")) == [], "no temporary file is left"

    again = rebalancers()
    assert again.code() == 0 and again.said("decision") == [] and again.said("pass ended", restarted=0, ok=True)


def test_a_second_run_names_the_holder_and_two_runs_keep_the_limit(
    cluster: Cluster, namespace: str, rebalancers: Start, modules: Modules
) -> None:
    webs = pile_up_held(cluster, namespace, "web-0", "web-1", "web-2")
    spread = modules.check(namespace)
    first = rebalancers("--max-workloads=1")
    wait_until(lambda: any(restarted_at(cluster, web) for web in webs), what=lambda: f"the first restart; {first.log.read_text()}")
    owner = holder(cluster)
    second = rebalancers("--max-workloads=1")
    third = modules.restart(check=spread, max_workloads=1)
    assert second.code() == 0
    (stopped,) = second.said("pass stopped")
    assert stopped["reason"] == "another_run" and owner and owner in stopped["text"]
    assert not third["failed"] and not third["changed"]
    assert [(entry["action"], entry["reason"]) for entry in third["workloads"]] == [("skipped", "another_run")] * 3
    assert all(owner in entry["message"] for entry in third["workloads"])
    with released(cluster, namespace):
        assert first.code() == 0, first.log.read_text()
    assert [restarted_at(cluster, web) is not None for web in webs].count(True) == 1
    assert {line["reason"] for line in first.said("decision", action="skipped")} == {"limit_reached"}


def test_check_mode_takes_no_lease_and_a_module_without_its_permissions_warns(
    cluster: Cluster, namespace: str, modules: Modules, rebalancers: Start
) -> None:
    web = deployment(namespace, "web")
    pile_up(cluster, web)
    spread = modules.check(namespace)
    plan = modules.restart(check=spread, check_mode=True)
    assert [entry["action"] for entry in plan["workloads"]] == ["would_restart"] and holder(cluster) == ""
    rules = [
        {"apiGroups": ["", "apps", "policy", "autoscaling"], "resources": ["*"], "verbs": ["list", "get", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    user = limited_user(cluster, "no-leases", rules)
    done = Modules(user).restart(check=spread)
    assert [(entry["action"], entry["outcome"]) for entry in done["workloads"]] == [("restarted", "improved")], done
    assert len(done["warnings"]) == 1
    assert "only for this run" in str(done["warnings"]) and "leases" in str(done["warnings"])


def limited_user(cluster: Cluster, name: str, rules: list[dict[str, list[str]]]) -> Path:
    """Return the kubeconfig of a service account with these rules only."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name}}
    del binding["rules"]
    cluster.apply([role, {**binding, "subjects": [subject]}])
    return cluster.service_account(name, cluster_role=None)


def test_a_dry_run_needs_no_permission_to_write_and_changes_nothing(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    web, api = deployment(namespace, "web"), deployment(namespace, "api")
    pile_up(cluster, web, api)
    groups = ["", "apps", "policy", "autoscaling", "coordination.k8s.io"]
    user = limited_user(cluster, "reader", [{"apiGroups": groups, "resources": ["*"], "verbs": ["list", "get"]}])
    mark = cluster.audit().mark()
    plan = rebalancers("--dry-run", "--max-workloads=1", kubeconfig=user)
    assert plan.code() == 0, plan.log.read_text()
    assert plan.decision("api")["action"] == "would_restart" and plan.decision("web")["reason"] == "limit_reached"
    evictions = rebalancers("--dry-run", "--strategy=evict_surplus", kubeconfig=user)
    assert evictions.code() == 0 and evictions.decision("web")["action"] == "would_evict", evictions.log.read_text()
    events = list(cluster.audit().events(since=mark, user="system:serviceaccount:default:reader"))
    assert {event.verb for event in events} == {"get", "list"} and {event.code for event in events} == {200}
    assert restarted_at(cluster, web) is None and outcome(cluster, web) is None


def test_missing_permissions_are_3(cluster: Cluster, rebalancers: Start) -> None:
    nobody = rebalancers(kubeconfig=cluster.service_account("nobody", cluster_role=None))
    assert nobody.code() == 3 and "Grant the verb 'get' on " in nobody.log.read_text() and "Traceback" not in nobody.log.read_text()
    reader = limited_user(cluster, "blind", [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "get"]}])
    unreadable = rebalancers("--dry-run", kubeconfig=reader)
    assert unreadable.code() == 3 and "Grant the verb 'list' on " in unreadable.log.read_text()


def test_an_api_server_that_is_not_there_is_3(cluster: Cluster, rebalancers: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "config").write_text(re.sub(r"server: \S+", f"server: https://127.0.0.1:{port}", cluster.kubeconfig.read_text()))
    done = rebalancers(kubeconfig=tmp_path / "config")
    assert done.code() == 3 and "no answer from " in done.log.read_text()


def test_a_namespace_that_does_not_exist_is_2(rebalancers: Start) -> None:
    done = rebalancers("--namespaces=no-such")
    assert done.code() == 2 and "there is no namespace no-such" in done.log.read_text()


def test_a_failed_restart_is_1_and_is_counted(cluster: Cluster, namespace: str, rebalancers: Start, tmp_path: Path) -> None:
    pile_up_held(cluster, namespace, "web")
    file = tmp_path / "rebalance.prom"
    done = rebalancers("--wait-timeout=1", f"--metrics-path={file}", "--pushgateway-url=http://127.0.0.1:1")
    assert done.code() == 1 and done.decision("web")["reason"] == "rollout_not_finished", done.log.read_text()
    assert samples(file.read_text())["failed"] == 1
    assert done.said("the metrics cannot be pushed", level="warning")


def test_a_file_for_metrics_that_cannot_be_written_is_a_warning(rebalancers: Start) -> None:
    done = rebalancers("--metrics-path=/nowhere/rebalance.prom")
    assert done.code() == 0 and done.said("the metrics cannot be written", level="warning"), done.log.read_text()


def test_the_variables_of_the_original_choose_the_kubeconfig(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """DEV and KUBE_CONFIG are those of the CronJob that this program replaces."""
    flags = (f"--namespaces={namespace}", "--dry-run")
    for environment in ({"DEV": "true", "KUBE_CONFIG": str(cluster.kubeconfig)}, {"DEV": "x", "HOME": str(_home(cluster, tmp_path))}):
        done = Rebalancer(tmp_path / "log", *flags, **environment)
        assert done.code() == 0, done.log.read_text()


def _home(cluster: Cluster, folder: Path) -> Path:
    (folder / ".kube").mkdir()
    (folder / ".kube" / "config").write_text(cluster.kubeconfig.read_text())
    return folder
