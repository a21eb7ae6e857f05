# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The role extended_scheduler against a real API server with simulated nodes: installed, repeated, changed and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.kubernetes_version import needs_kubernetes
from tests.integration.roles.host_cases import play_role
from tests.integration.roles.installed import SETTINGS, installed, remove_all
from tests.integration.roles.installed_scheduler import data_of
from tests.integration.roles.pod_monitors import prometheus_operator
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import IMAGE, wait_until

__all__ = ["prometheus_operator"]

SYSTEM, NAME, PROFILE = "kube-system", "kube-scheduling-scheduler", "network-traffic"
LABEL = "kube-scheduling.onprem/profile"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{NAME}"
POD_MONITOR = f"/apis/monitoring.coreos.com/v1/namespaces/{SYSTEM}/podmonitors/{NAME}"
OBJECTS = {
    *(f"clusterrolebindings /{NAME}-as-{role}" for role in ("kube-scheduler", "volume-scheduler")),
    *(f"rolebindings {SYSTEM}/{name}" for name in (NAME, f"{NAME}-as-authentication-reader")),
    *(f"{kind} {SYSTEM}/{NAME}" for kind in ("roles", "serviceaccounts", "poddisruptionbudgets", "deployments")),
    *(f"{kind} /{NAME}-extender" for kind in ("clusterroles", "clusterrolebindings")),
    *(f"{kind} {SYSTEM}/{NAME}-extender" for kind in ("serviceaccounts", "secrets")),
}
POLICIES = {f"mutatingadmissionpolicies /{NAME}", f"mutatingadmissionpolicybindings /{NAME}"}
# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)
OF_CONTROLLERS = ("replicasets ", "pods ")


def made(cluster: Cluster) -> set[str]:
    """Return the objects of the role, without its ConfigMaps and those that controllers make for them."""
    return {name for name in installed(cluster) if not name.startswith((*OF_CONTROLLERS, SETTINGS))}


def settings(cluster: Cluster) -> set[str]:
    """Return the ConfigMaps of the role."""
    return {name for name in installed(cluster) if name.startswith(SETTINGS)}


@pytest.fixture
def role(cluster: Cluster, tmp_path: Path) -> Iterator[RolePlay]:
    """The role with an image that no node has, because the pods are simulated. What a test has installed is deleted after it."""
    variables = {
        "extended_scheduler_kubeconfig": str(cluster.kubeconfig),
        "extended_scheduler_extender_image": "registry.example.org/kube-scheduling/services:1",
    }
    yield RolePlay("extended_scheduler", tmp_path, variables)
    remove_all(cluster)


@pytest.fixture
def shop(namespaces: NamespaceFactory) -> str:
    """A namespace whose pods have the profile by its label."""
    return namespaces("shop", labels={LABEL: PROFILE})


def template(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(DEPLOYMENT)["spec"]["template"]
    return found


def create_pod(cluster: Cluster, namespace: str, name: str, **spec: Any) -> str:
    """Create a pod, and return its schedulerName."""
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": IMAGE}], **spec}}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", body)
    scheduler: str = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]["schedulerName"]
    return scheduler


@pytest.mark.full
def test_installation_is_planned_made_repeated_changed_and_removed(
    cluster: Cluster, role: RolePlay, shop: str, prometheus_operator: Callable[[], None]
) -> None:
    needs_kubernetes("1.36", "extended_scheduler_namespaces")
    labelled = {"extended_scheduler_namespaces": LABEL}
    planned = role.run("--check", "--diff", **labelled)
    assert planned.code == 0 and planned.changed, planned.output
    assert f"Deployment {SYSTEM}/{NAME}" in planned.output and "each other's nominations" in planned.in_one_line
    assert installed(cluster) == set()

    first = role.run(**labelled)
    assert first.code == 0 and made(cluster) == OBJECTS | POLICIES, first.output
    check_deployment(cluster)
    before = template(cluster)["spec"]["volumes"]
    again = role.run("--diff", **labelled)
    assert again.code == 0 and again.changed == 0, again.output

    # The API server uses a new policy some seconds after its creation.
    numbers = iter(range(100))
    wait_until(lambda: create_pod(cluster, shop, f"new-{next(numbers)}") == PROFILE, timeout_s=60, what="the policy for the namespace")
    assert create_pod(cluster, shop, "of-another", schedulerName="other") == "other"
    assert create_pod(cluster, shop, "bound", nodeName="worker-1") == "default-scheduler"
    assert create_pod(cluster, "default", "elsewhere") == "default-scheduler"
    cluster.kubectl("delete", "pod", "elsewhere")

    # The pods wait, because no scheduler runs. A profile that they name is neither renamed nor removed.
    for refused in (role.run(extended_scheduler_profile_name="quiet"), role.run(extended_scheduler_state="absent")):
        assert refused.code == 2 and f"{PROFILE} would be removed, and " in refused.output, refused.output
        assert f"Pod {shop}/new-" in refused.output and f"Pod {shop}/of-another" not in refused.output
    cluster.kubectl("delete", "pods", "--all", "--namespace", shop, "--grace-period=0", "--force")
    workload = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}}
    spec = {"schedulerName": PROFILE, "containers": [{"name": "main", "image": IMAGE}]}
    named = {**workload, "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}}
    cluster.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": shop}, "spec": named})
    refused = role.run(extended_scheduler_state="absent")
    assert refused.code == 2 and f"1 pods or workloads would wait for it: StatefulSet {shop}/web" in refused.output, refused.output
    assert made(cluster) == OBJECTS | POLICIES

    # A changed setting replaces the pods. The earlier revision keeps its files. Without the variable there is no policy. There is a
    # Prometheus operator now.
    prometheus_operator()
    changed = role.run(
        extended_scheduler_preset="safe_pigeon",
        extended_scheduler_prometheus_urls=["http://prometheus.example.org:9090"],
        extended_scheduler_pod_monitor_secret="scheduler-metrics",
    )
    assert changed.code == 0 and made(cluster) == OBJECTS, changed.output
    check_pod_monitor(cluster)
    assert template(cluster)["spec"]["volumes"] != before and len(settings(cluster)) == 2
    assert [one["name"] for one in template(cluster)["spec"]["containers"]] == ["scheduler", "extender-1", "extender-2"]
    assert set(data_of(cluster)) == {"scheduler.yaml", "extender-1.yaml", "extender-2.yaml"}

    gone = role.run("--check", extended_scheduler_state="absent", extended_scheduler_force=True)
    assert gone.code == 0 and gone.changed and made(cluster) == OBJECTS, gone.output
    text = gone.output.partition("Would be deleted: ")[2]
    assert text.index("Deployment ") < text.index("RoleBinding ") < text.index("ServiceAccount "), text
    cluster.kubectl("delete", "statefulset", "web", "--namespace", shop)
    absent = role.run(extended_scheduler_state="absent")
    assert absent.code == 0 and installed(cluster) == set(), absent.output
    assert cluster.get(POD_MONITOR.rpartition("/")[0])["items"] == []


def check_pod_monitor(cluster: Cluster) -> None:
    """The PodMonitor has each port with metrics, and the token for that of the scheduler."""
    endpoints = {one["port"]: one for one in cluster.get(POD_MONITOR)["spec"]["podMetricsEndpoints"]}
    ports = {port["name"] for container in template(cluster)["spec"]["containers"] for port in container["ports"]}
    assert set(endpoints) == ports == {"https", "status-1", "status-2"}
    assert endpoints["https"]["authorization"] == {"credentials": {"name": "scheduler-metrics", "key": "token"}}
    assert endpoints["https"]["scheme"] == "https" and {one["path"] for one in endpoints.values()} == {"/metrics"}


def check_deployment(cluster: Cluster) -> None:
    deployment = cluster.get(DEPLOYMENT)
    status, spec = deployment["status"], deployment["spec"]["template"]["spec"]
    assert status["availableReplicas"] == status["updatedReplicas"] == 2
    assert (spec["schedulerName"], spec["priorityClassName"], spec["enableServiceLinks"]) == (
        "default-scheduler", "system-cluster-critical", False
    )  # fmt: skip
    version = cluster.get("/version")["gitVersion"]
    assert [one["name"] for one in spec["containers"]] == ["scheduler", "extender-1"]
    assert spec["containers"][0]["image"] == f"registry.k8s.io/kube-scheduler:{version}"
    pods = [pod for pod in cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"] if pod["metadata"]["name"].startswith(NAME)]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"control-plane-1"} and len(pods) == 2
    file = yaml.safe_load(data_of(cluster)["extender-1.yaml"])
    assert file["listen"] == "127.0.0.1:5401" and file["sources"] == {"kubernetes": {}, "node_exporter": {"port": 9100}}


@pytest.fixture
def login(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The variables for a Prometheus with a token of a Secret and an authority of a ConfigMap."""
    files = {"secret": ("generic", "prometheus-login", "token=abc"), "configmap": ("prometheus-ca", "ca.crt=abc")}
    for kind, (*names, literal) in files.items():
        cluster.kubectl("create", kind, *names, f"--from-literal={literal}", "--namespace", SYSTEM)
    sources = {
        "bearer_token_file": "/etc/extender/secrets/prometheus-login/token",
        "tls": {"ca_file": "/etc/extender/configmaps/prometheus-ca/ca.crt"},
    }
    yield {
        "extended_scheduler_prometheus_urls": ["https://prometheus.example.org"],
        "extended_scheduler_sources": {"prometheus": sources},
    }
    for kind, (*_type, name, _literal) in files.items():
        cluster.kubectl("delete", kind, name, "--namespace", SYSTEM)


def test_the_pods_keep_the_pod_security_level_restricted_and_have_the_named_files(
    cluster: Cluster, role: RolePlay, namespaces: NamespaceFactory, login: dict[str, Any]
) -> None:
    clients = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    installed_run = role.run(extended_scheduler_wait_timeout=0, extended_scheduler_metrics_clients=clients, **login)
    assert installed_run.code == 0, installed_run.output
    (rule,) = cluster.get(f"/apis/networking.k8s.io/v1/namespaces/{SYSTEM}/networkpolicies/{NAME}")["spec"]["ingress"]
    assert rule["from"] == clients and [one["port"] for one in rule["ports"]] == [10259, 5501]
    scheduler, extender = template(cluster)["spec"]["containers"]
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert [one["mountPath"] for one in scheduler["volumeMounts"]] == ["/etc/kube-scheduling", account]
    mounts = {one["mountPath"]: one["name"] for one in extender["volumeMounts"]}
    volumes = {one["name"]: one for one in template(cluster)["spec"]["volumes"]}
    assert volumes[mounts["/etc/extender/secrets/prometheus-login"]]["secret"]["secretName"] == "prometheus-login"
    assert volumes[mounts["/etc/extender/configmaps/prometheus-ca"]]["configMap"]["name"] == "prometheus-ca"
    namespace = namespaces("restricted", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    # The priority class is for kube-system only.
    spec = {**template(cluster)["spec"], "serviceAccountName": "default", "priorityClassName": ""}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try", "namespace": namespace}, "spec": spec}
    assert "created" in cluster.kubectl("create", "--dry-run=server", "--filename", "-", input=json.dumps(pod))


def test_all_mistakes_are_named_and_nothing_is_changed(cluster: Cluster, role: RolePlay) -> None:
    own = {"listen": ":1", "profiles": {"web": {"agents": [{"name": "network_trafic"}]}}}
    prometheus = {"urls": ["https://prometheus.example.org"], "bearer_token_file": "/etc/extender/secrets/absent/token"}
    cases = {
        "wrong": {
            "extended_scheduler_replica": 3,
            "extended_scheduler_replicas": 0,
            "extended_scheduler_extender_image": "",
            "extended_scheduler_http_timeout": "soon",
            "extended_scheduler_extenders": [{"settings": own, "entries": [{"prioritizeVerb": "prioritize", "wieght": 3}]}],
        },
        "shape": {"extended_scheduler_shape": "third_scheduler"},
        "cluster": {
            "extended_scheduler_node_label": "example.org/schedulers",
            "extended_scheduler_sources": {"prometheus": prometheus},
        },
    }
    texts = {
        "wrong": (
            "There is no variable extended_scheduler_replica; the nearest is extended_scheduler_replicas.",
            "extended_scheduler_replicas is 0: ",
            "extended_scheduler_extender_image is empty",
            "extended_scheduler_http_timeout is soon: ",
            "extended_scheduler_extenders[0].settings has listen: remove it",
            "extended_scheduler_extenders[0].settings has the profile web, which the scheduler does not have",
            "extended_scheduler_extenders[0].entries[0] has the unknown field wieght; the nearest is weight",
            "there is no agent network_trafic; the nearest is network_traffic",
        ),
        "shape": ("value of extended_scheduler_shape must be one of: second_scheduler, kubeadm, systemd, got: third_scheduler",),
        "cluster": (
            f"Secret {SYSTEM}/absent, which does not exist",
            "with the key token",
            "no node has the label example.org/schedulers: set extended_scheduler_node_label",
        ),
    }
    run = play_role(role, cases)
    for case, said in texts.items():
        for text in said:
            assert text in run.failure(case), (text, run.failure(case))
    assert installed(cluster) == set()
