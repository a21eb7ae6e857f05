# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role critical_rescuer with static pods: files of a host in a folder, a certificate by the real kubeadm, and the end of a pod.

No kubelet runs here. The test starts the program of the manifest and ends it when the manifest is gone, as the kubelet does.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from lab.kind.programs import NODE
from lab.layout import REPOSITORY
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.rescuer.daemons import Daemon
from tests.integration.rescuer.test_rescuer import full_node
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.role_play import RolePlay, RoleRun, ansible_playbook
from tests.integration.workloads import wait_until
from tests.static_pods import enter, running_kubelet, static_pod

USER = "kube-scheduling-rescuer"
NAME = "kube-scheduling-rescuer-static"
KUBEADM_CONFIG = f"/api/v1/namespaces/{SYSTEM}/configmaps"
RIGHTS = {
    *(f"{kind} /{NAME}" for kind in ("clusterroles", "clusterrolebindings")),
    *(f"{kind} {namespace}/{NAME}" for kind in ("roles", "rolebindings") for namespace in (SYSTEM, "default")),
}

STATE = {f"{kind} {SYSTEM}/kube-scheduling-rescue" for kind in ("configmaps", "leases")}
"""The state of the program. The role leaves it to the playbook uninstall.yml."""

# Each run of a role takes many seconds on a machine with other work.
pytestmark = [
    pytest.mark.usefixtures("as_root"),
    pytest.mark.timeout(1800),
]


@dataclass(frozen=True)
class Host:
    """A control plane of which only the files exist, and the role that writes them."""

    role: RolePlay
    manifest: Path
    folder: Path
    inventory: Path

    def run(self, *arguments: str, **variables: Any) -> RoleRun:
        return self.role.run("-i", str(self.inventory), *arguments, **variables)

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.manifest.read_text())
        return found

    @property
    def certificate(self) -> str:
        text: str = yaml.safe_load((self.folder / "kubeconfig").read_text())["users"][0]["user"]["client-certificate-data"]
        return text


def make_kubeadm_config(cluster: Cluster, configuration: str) -> None:
    cluster.api.post(KUBEADM_CONFIG, {"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": configuration}})


@pytest.fixture
def host_without_kubeadm(cluster: Cluster, tmp_path: Path) -> Iterator[Host]:
    """The files of a control plane. The objects of the role are removed after the test."""
    server = cluster.server.removeprefix("https://")
    configuration = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": "v1.36.3",
        "certificatesDir": str(cluster.layout.pki),
        "controlPlaneEndpoint": server,
    }
    make_kubeadm_config(cluster, yaml.safe_dump(configuration))
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    inventory = tmp_path / "inventory.yml"
    control_plane = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    # Nothing listens on port 1, so this host cannot be reached.
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    groups = {"kube_control_plane": {"hosts": {"cp-1": control_plane}}, "others": {"hosts": {"cp-2": away, "cp-3": control_plane}}}
    inventory.write_text(yaml.safe_dump(groups))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    manifest, folder = manifests / "kube-scheduling-rescuer.yaml", tmp_path / "rescuer"
    # All hosts are this machine. The other ones have files with other names.
    other = "{{ '-' ~ __critical_rescuer_host if __critical_rescuer_host | default('cp-1') != 'cp-1' else '' }}"
    variables = {
        "critical_rescuer_form": "static_pod",
        "critical_rescuer_kubeconfig": str(cluster.kubeconfig),
        "critical_rescuer_image": "registry.example.org/kube-scheduling/services:1",
        "critical_rescuer_image_pull_policy": "Never",  # as verify.yml expects it of a preloaded image
        "critical_rescuer_manifest_path": f"{manifest}{other}",
        "critical_rescuer_static_folder": f"{folder}{other}",
        "critical_rescuer_static_become": False,
        "critical_rescuer_kubeadm": "/nowhere/kubeadm",
        "critical_rescuer_port": port,
        # There is no kubelet that would report the pod.
        "critical_rescuer_wait_timeout": 0,
    }
    control_plane_host = Host(RolePlay("critical_rescuer", tmp_path, variables), manifest, folder, inventory)
    yield control_plane_host
    # The files are in the folder of the test.
    remove_all(cluster)
    cluster.api.request("DELETE", f"{KUBEADM_CONFIG}/kubeadm-config")


@pytest.fixture
def host(host_without_kubeadm: Host) -> Host:
    """The same control plane with kubeadm, which is built if needed."""
    host_without_kubeadm.role.variables["critical_rescuer_kubeadm"] = str(NODE.ensure(print) / "kubeadm")
    return host_without_kubeadm


def made(cluster: Cluster) -> set[str]:
    """Return the objects of the role."""
    return installed(cluster) - STATE


def mode_and_owner(path: Path) -> tuple[str, int]:
    found = path.stat()
    return oct(found.st_mode & 0o777), found.st_uid


@pytest.mark.full
def test_files_of_a_host_are_made_repeated_renewed_and_replaced_by_the_other_form(cluster: Cluster, host: Host) -> None:
    planned = host.run("--check")
    assert planned.code == 0 and planned.changed, planned.output
    assert not host.folder.exists() and not host.manifest.exists() and made(cluster) == set()

    done = host.run()
    assert done.code == 0, done.output
    assert "PRIVATE KEY" not in done.output and "client-key-data" not in done.output
    assert made(cluster) == RIGHTS
    (settings,) = host.folder.glob("config-*.yml")
    assert mode_and_owner(host.folder / "kubeconfig") == mode_and_owner(settings) == ("0o600", 65532)
    assert mode_and_owner(host.folder) == ("0o700", 65532) and mode_and_owner(host.manifest) == ("0o600", 0)
    assert [file.name for file in host.manifest.parent.iterdir()] == [host.manifest.name]
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(host.manifest))
    check_rights_of_user(cluster)

    verified = verify(host)
    expires = "cp-1: the client certificate of the static pod kube-scheduling-rescuer expires in 364 days"
    assert verified.code == 0 and expires in verified.in_one_line, verified.output

    # The certificate is valid for a year.
    again = host.run("--diff", critical_rescuer_static_renew_days=360)
    assert again.code == 0 and again.changed == 0, again.output
    certificate, pod = host.certificate, host.pod
    assert pod["metadata"]["annotations"]["kube-scheduling.onprem/inventory-host"] == "cp-1"
    renewed = host.run(critical_rescuer_static_renew_days=370)
    assert renewed.code == 0 and host.certificate != certificate, renewed.output
    assert host.pod["metadata"]["annotations"] != pod["metadata"]["annotations"]
    assert (
        host.pod["spec"]["containers"][0].pop("env") != pod["spec"]["containers"][0].pop("env")
        and host.pod["spec"].keys() == pod["spec"].keys()
    )

    # The wanted form replaces the other one, in both directions.
    changed = host.run(critical_rescuer_form="deployment")
    assert changed.code == 0, changed.output
    assert not host.folder.exists() and not host.manifest.exists()
    assert not RIGHTS & made(cluster) and f"deployments kube-scheduling/{USER}" in made(cluster)

    # A host that has left the list, one that cannot be reached, and one that has left the inventory. Any kubelet can make such pods.
    node = cluster.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    left = {name: make_mirror_pod(cluster, name, node) for name in ("cp-1", "cp-2", "cp-3", "cp-9")}
    manifest, folder = Path(f"{host.manifest}-cp-3"), Path(f"{host.folder}-cp-3")
    manifest.touch()
    folder.mkdir()
    (folder / "kubeconfig").touch()
    try:
        # The kubelet of cp-3 has no such pod on this Node: it is of another cluster.
        static = host.run()
        assert static.code == 0 and host.manifest.exists() and made(cluster) == RIGHTS, static.output
        assert manifest.exists() and folder.exists()
        with static_pod("kube-scheduling-rescuer", node):
            left_list = host.run()
        assert left_list.code == 0 and not manifest.exists() and not folder.exists(), left_list.output
        assert re.search("WARNING: .*cp-2, cp-9, which is none of the hosts", static.in_one_line)
        waits = host.run(critical_rescuer_wait_timeout=4)
        missing = f"cp-1: the static pod kube-scheduling-rescuer is not ready after 4 s: no process of {host.manifest} runs. "
        assert waits.code == 2 and missing in waits.in_one_line and host.manifest.exists(), waits.output
        claimed = verify(host)
        assert claimed.code == 0 and "has a static pod" not in claimed.output, claimed.output
        assert "a pod names a host of the rescuer that cannot be asked: cp-9" in claimed.in_one_line, claimed.output
        manifest.touch()
        with static_pod("kube-scheduling-rescuer", node):
            named = verify(host)
        found = re.findall(r"(cp-\d) has a static pod", named.output)
        assert named.code == 2 and set(found) == {"cp-3"}, named.output
        removed = host.run(critical_rescuer_state="absent")
        assert removed.code == 0 and not host.manifest.exists() and made(cluster) == set(), removed.output
    finally:
        for path in left.values():
            cluster.api.request("DELETE", path)


def make_mirror_pod(cluster: Cluster, host: str, node: str) -> str:
    """Create the pod that a kubelet makes for the manifest of this host, and return its path."""
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    metadata = {
        "name": f"mirror-{host}",
        "labels": {"app.kubernetes.io/name": NAME},
        "annotations": {"kube-scheduling.onprem/inventory-host": host},
    }
    cluster.api.post(pods, {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "x", "image": "x"}]}})
    return f"{pods}/mirror-{host}"


def verify(host: Host) -> RoleRun:
    kubeconfig = host.role.variables["critical_rescuer_kubeconfig"]
    image = {"service_image_delivery": "preloaded", "service_image_reference": host.role.variables["critical_rescuer_image"]}
    variables = host.role.variables | image | {"site_spread_cronjob": False, "site_kubeconfig": kubeconfig}
    arguments = ("-i", str(host.inventory), "-e", json.dumps(variables))
    with running_kubelet(host.manifest, "kube-scheduling-rescuer"):
        return ansible_playbook(REPOSITORY / "playbooks" / "verify.yml", *arguments, folder=host.role.folder)


def check_rights_of_user(cluster: Cluster) -> None:
    questions = {("patch", "nodes"): True, ("update", "nodes"): False, ("get", "secrets"): False, ("delete", "pods"): False}
    for (verb, resource), allowed in questions.items():
        attributes = {"verb": verb, "resource": resource, "namespace": "" if resource == "nodes" else SYSTEM}
        review = {"spec": {"user": USER, "groups": ["system:authenticated"], "resourceAttributes": attributes}}
        answer = cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer["status"]["allowed"] is allowed, (verb, resource)


@pytest.mark.full
def test_end_of_a_static_pod_releases_its_node_before_its_rights_are_gone(
    scene: Scene, cluster: Cluster, host: Host, tmp_path: Path
) -> None:
    installed_run = host.run(critical_rescuer_settings={"stop_timeout": "1s"})
    assert installed_run.code == 0, installed_run.output
    spec = host.pod["spec"]
    assert spec["terminationGracePeriodSeconds"] == 31
    mounted = [argument.replace("/etc/kube-scheduling/", f"{host.folder}/") for argument in spec["containers"][0]["args"]]
    program, *flags = mounted
    port = spec["containers"][0]["ports"][0]["containerPort"]
    assert program == "rescuer"
    pod = contextlib.ExitStack()
    daemon = Daemon(cluster, tmp_path / "daemon.log", *flags, f"--listen-address=127.0.0.1:{port}", kubeconfig=host.folder / "kubeconfig")
    try:
        enter(pod.enter_context(static_pod("kube-scheduling-rescuer")), daemon.process.pid)
        wait_until(lambda: daemon.leads, what=lambda: f"a leader; {daemon.log.read_text()}")
        node = full_node(scene, grace=25)
        scene.critical("dns")
        wait_until(lambda: daemon.said("pod evicted"), what=lambda: f"an eviction; {daemon.log.read_text()}")
        assert scene.held() == [node]

        kept: list[bool] = []

        def end_with_manifest() -> None:
            wait_until(lambda: not host.manifest.exists(), timeout_s=600, what="the end of the manifest")
            kept.append((host.folder / "kubeconfig").exists())
            daemon.process.send_signal(signal.SIGTERM)
            daemon.process.wait(60)

        kubelet = threading.Thread(target=end_with_manifest)
        kubelet.start()
        removed = host.run(critical_rescuer_form="deployment", critical_rescuer_state="absent")
        kubelet.join()
        assert removed.code == 0, removed.output
        assert daemon.process.wait(60) == 0 and scene.held() == []
        assert daemon.said("node released", node=node) and kept == [True] and not host.folder.exists()
        assert made(cluster) == set()
    finally:
        daemon.kill()
        pod.close()


def test_host_without_kubeadm_is_named_and_no_manifest_is_written(host_without_kubeadm: Host) -> None:
    missing = host_without_kubeadm.run()
    assert missing.code == 2 and "cp-1: /nowhere/kubeadm kubeconfig user made no kubeconfig" in missing.output, missing.output
    assert not host_without_kubeadm.manifest.exists()


@pytest.mark.full
def test_hosts_that_cannot_be_used_are_named_and_no_manifest_is_written(cluster: Cluster, host: Host) -> None:
    # The play has the connection local, which must not be used for the host.
    unreachable = host.run(critical_rescuer_static_hosts=["cp-2"])
    assert unreachable.code == 2 and "cp-2: it is not known whether port " in unreachable.in_one_line, unreachable.output
    assert not host.manifest.exists() and made(cluster) == set()
    # The other host follows, and the rights stay.
    first = host.run()
    assert first.code == 0, first.output
    kept = host.run(critical_rescuer_static_hosts=["cp-2", "cp-1"], critical_rescuer_state="absent")
    assert kept.code == 2 and "could not be reached: cp-2. " in kept.in_one_line, kept.output
    assert not host.manifest.exists() and made(cluster) == RIGHTS
    unlisted = host.run(critical_rescuer_static_hosts=["cp-9"])
    assert unlisted.code == 2 and "critical_rescuer_static_hosts has cp-9, which is not in the inventory" in unlisted.output
    cluster.api.request("DELETE", f"{KUBEADM_CONFIG}/kubeadm-config")
    try:
        unknown = host.run()
        assert unknown.code == 2 and "There is no ConfigMap kube-system/kubeadm-config" in unknown.output, unknown.output
    finally:
        make_kubeadm_config(cluster, "")
