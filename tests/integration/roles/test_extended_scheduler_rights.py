# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The real kube-scheduler and extender with the files and rights of the role: the rights are enough, and all own ones are used."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from tests.integration.extender.conftest import pods, traffic
from tests.integration.extender.traffic import WINDOW_S, Traffic
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.rescue.test_permissions import Grant, granted
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.installed_scheduler import EXTENDER, EXTENDER_USER, NAME, NAMESPACE, USER, programs
from tests.integration.roles.restricted_user import rules_of_scheduler, user_with
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import wait_until
from tools.paths import ROOT

__all__ = ["pods", "traffic"]

PROFILE = "network-traffic"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
STATE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/kube-scheduling-extender"
DECLARED = yaml.safe_load((ROOT / "roles" / "extended_scheduler" / "vars" / "main" / "permissions.yml").read_text())
ROLES_OF_KUBERNETES = (
    f"{RBAC}/clusterroles/system:kube-scheduler",
    f"{RBAC}/clusterroles/system:volume-scheduler",
    f"{RBAC}/namespaces/{NAMESPACE}/roles/extension-apiserver-authentication-reader",
)
# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def role(cluster: Cluster, tmp_path: Path) -> Iterator[RolePlay]:
    variables = {"kubeconfig": str(cluster.kubeconfig), "extender_image": "registry.example.org/services:1", "wait_timeout": 0}
    # A busy machine may answer slowly.
    variables |= {"http_timeout": "20s"}
    yield RolePlay("extended_scheduler", tmp_path, {f"extended_scheduler_{name}": value for name, value in variables.items()})
    remove_all(cluster)
    for kind in ("configmap", "lease"):
        cluster.kubectl("delete", kind, "kube-scheduling-extender", "--namespace", NAMESPACE, "--ignore-not-found")


def own_rights(cluster: Cluster, name: str, of_kubernetes: tuple[str, ...]) -> set[Grant]:
    """Return what the role itself grants to a service account. Each other role that is bound to it is one of Kubernetes."""
    bindings = [
        binding
        for kind in ("clusterrolebindings", "rolebindings")
        for binding in cluster.get(f"{RBAC}/{kind}")["items"]
        if {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} in binding.get("subjects", [])
    ]
    bound = {binding["roleRef"]["name"] for binding in bindings}
    assert bound == {name, *(path.rpartition("/")[2] for path in of_kubernetes)}
    found = (cluster.api.find(path) for path in (f"{RBAC}/clusterroles/{name}", f"{RBAC}/namespaces/{NAMESPACE}/roles/{name}"))
    return granted([role for role in found if role is not None])


def requests(cluster: Cluster, mark: int, user: str = USER) -> list[AuditEvent]:
    found = cluster.audit().events(since=mark, user=user, stages=(STARTED, COMPLETE))
    return [event for event in found if event.resource]


def check_rights(cluster: Cluster, mark: int) -> None:
    """No request of the two users was refused, each is covered by a role of the user, and each own right was used."""
    for name, user, of_kubernetes in ((NAME, USER, ROLES_OF_KUBERNETES), (EXTENDER, EXTENDER_USER, ())):
        events, own = requests(cluster, mark, user), own_rights(cluster, name, of_kubernetes)
        everything = own | granted([cluster.get(path) for path in of_kubernetes])
        assert events and [event for event in events if event.code in (401, 403)] == []
        assert [event for event in events if not any(grant.covers(event) for grant in everything)] == []
        assert {grant for grant in own if not any(grant.covers(event) for event in events)} == set()


def test_a_pod_is_bound_to_the_quiet_node_with_only_these_rights(
    cluster: Cluster, role: RolePlay, traffic: Traffic, pods: WaitingPods, tmp_path: Path
) -> None:
    made = role.run(
        extended_scheduler_prometheus_urls=[traffic.prometheus.url],
        extended_scheduler_sources={"prometheus": {"refresh_s": 1}},
        extended_scheduler_agent_args={"network_traffic": {"device": "eth.*", "window": WINDOW_S, "max_age_s": 6}},
    )
    assert made.code == 0, made.output
    mark = cluster.audit().mark()
    folder = tmp_path / "programs"
    folder.mkdir()
    with programs(cluster, folder) as running:
        (extender,) = running.extenders
        for quiet in (traffic.workers[1], traffic.workers[4]):
            traffic.settle(extender, quiet)
            assert pods.bind(3, PROFILE) == [quiet] * 3
        assert pods.scheduled_by("pod-1") == PROFILE
        # Pods of other schedulers are not touched.
        assert pods.bind(1, "default-scheduler") and pods.scheduled_by("pod-7") == "default-scheduler"
        assert read_metrics(cluster.service_account(NAME, namespace=NAMESPACE, cluster_role=None), running.health_port)[0] == 403
        assert read_metrics(cluster.service_account("reads-metrics"), running.health_port)[0] == 200
        # The Lease is renewed every two seconds.
        wait_until(lambda: "update" in {event.verb for event in requests(cluster, mark) if event.resource == "leases"}, what="a renewal")
        check_rights(cluster, mark)


def read_metrics(user: Path, port: int) -> tuple[int, str]:
    """Ask the scheduler for metrics as this user. It asks the API server who that is, and whether the user may get them."""
    headers = {"Authorization": f"Bearer {yaml.safe_load(user.read_text())['users'][0]['user']['token']}"}
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # its certificate is made at its start
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


@pytest.mark.full
def test_learned_rewards_are_stored_with_the_rights_for_them_and_removed_with_the_scheduler(
    cluster: Cluster, role: RolePlay, pods: WaitingPods, tmp_path: Path
) -> None:
    made = role.run(extended_scheduler_preset="reward")
    assert made.code == 0, made.output
    mark = cluster.audit().mark()
    folder = tmp_path / "programs"
    folder.mkdir()
    with programs(cluster, folder) as running:
        pods.bind(2, PROFILE)
        (extender,) = running.extenders
        wait_until(lambda: extender.metric("nodes") > 0, what="the first reading")
        # What is learned is saved at the end.
        assert extender.stop() == 0
        assert [line for line in extender.lines if line["level"] not in ("info", "notice")] == []
    assert (cluster.api.find(STATE) or {}).get("data")
    # A second extender finds the ConfigMap.
    second = tmp_path / "second"
    second.mkdir()
    with programs(cluster, second) as running:
        pods.bind(2, PROFILE)
        assert running.extenders[0].stop() == 0
        check_rights(cluster, mark)
    for name in (pod["metadata"]["name"] for pod in cluster.get(f"/api/v1/namespaces/{pods.namespace}/pods")["items"]):
        cluster.kubectl("delete", "pod", name, "--namespace", pods.namespace)
    absent = role.run(extended_scheduler_state="absent")
    assert absent.code == 0 and installed(cluster) == set() and cluster.api.find(STATE) is None, absent.output


def test_the_user_needs_the_right_to_the_secret_of_the_extenders_and_to_no_other_secret(cluster: Cluster, role: RolePlay) -> None:
    without = {place: [rule for rule in found if rule["resources"] != ["secrets"]] for place, found in rules_of_scheduler().items()}
    with user_with(cluster, without) as kubeconfig:
        refused = role.run(extended_scheduler_kubeconfig=str(kubeconfig))
    assert refused.code == 2 and f"cannot get Secret {NAMESPACE}/{EXTENDER}" in refused.in_one_line, refused.output
    assert installed(cluster) == set()
    with user_with(cluster, rules_of_scheduler(removes=True)) as kubeconfig:
        made = role.run(extended_scheduler_kubeconfig=str(kubeconfig))
        absent = role.run(extended_scheduler_kubeconfig=str(kubeconfig), extended_scheduler_state="absent", extended_scheduler_force=True)
    assert made.code == 0 and made.changed, made.output
    assert absent.code == 0 and installed(cluster) == set(), absent.output


def test_each_right_of_the_data_file_is_granted_only_where_it_is_needed() -> None:
    learning: list[dict[str, Any]] = DECLARED["__extended_scheduler_permissions_to_learn"]
    assert {name for entry in learning for name in entry.get("names", [])} == {"kube-scheduling-extender"}
    # An extender reads all nodes and pods. Every other right is only for the namespace of the scheduler.
    everywhere = [entry for entries in DECLARED.values() for entry in entries if "namespace" not in entry]
    assert everywhere == DECLARED["__extended_scheduler_permissions_of_extenders"]
    assert [(entry["resources"], entry["verbs"]) for entry in everywhere] == [(["nodes", "pods"], ["list", "watch"])]
    namespaces = {entry["namespace"] for entries in DECLARED.values() for entry in entries if entry not in everywhere}
    assert namespaces == {NAMESPACE}
