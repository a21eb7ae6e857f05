# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The shape systemd of the role extended_scheduler without systemd: the command lines of its units, in the folders of their files.

The programs have the client certificates that the real kubeadm makes, and only the rights of the role.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ports
from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from lab.kind.programs import NODE
from tests.integration.extender.conftest import pods
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.role_play import ansible_playbook
from tests.integration.workloads import wait_until

__all__ = ["pods"]

SYSTEM, PROFILE = "kube-system", "network-traffic"
SCHEDULER_USER, EXTENDER_USER = "kube-scheduling-scheduler", "kube-scheduling-extender"
STATE = f"/api/v1/namespaces/{SYSTEM}/configmaps/kube-scheduling-extender"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/kube-scheduling-scheduler"
ROLE = "onprem.kube_scheduling.extended_scheduler"
STOP_TIMEOUT_S = 30.0

pytestmark = [
    pytest.mark.full,
    pytest.mark.usefixtures("as_root"),
    pytest.mark.timeout(1800),
]


@pytest.fixture
def kubeadm_config(cluster: Cluster) -> Iterator[None]:
    """The configuration with which kubeadm signs certificates of the cluster. What the test makes is removed after it."""
    configuration = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": "v1.36.3",
        "certificatesDir": str(cluster.layout.pki),
        "controlPlaneEndpoint": cluster.server.removeprefix("https://"),
    }
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    cluster.api.post(path, {"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": yaml.safe_dump(configuration)}})
    yield
    remove_all(cluster)
    cluster.api.request("DELETE", f"{path}/kubeadm-config")
    for name in ("kube-scheduling-extender", "kube-scheduling-scheduler"):
        cluster.kubectl("delete", "configmap,lease", name, "--namespace", SYSTEM, "--ignore-not-found")


def write_units(cluster: Cluster, folder: Path, port: int) -> Path:
    """Grant the rights, and write the programs, the files and the units. Return the folder of the units.

    This machine is the host and the control plane. It does not run systemd, so the tasks that start the units are left out.
    """
    this = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = folder / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"kube_control_plane": {"hosts": {"cp-1": this}}, "hosts": {"hosts": {"host-1": this}}}))
    variables: dict[str, Any] = {
        "shape": "systemd",
        "hosts": ["host-1"],
        "become": False,
        "preset": "reward",
        "http_timeout": "20s",  # a busy machine may answer slowly
        "kubeconfig": str(cluster.kubeconfig),
        "kubeadm": str(NODE.ensure(print) / "kubeadm"),
        "binary_path": str(cluster.binary("kube-scheduler")),
        "python": sys.executable,
        "secure_port": port,
        "folder": str(folder / "etc"),
        "program_folder": str(folder / "opt"),
    }
    steps = ["preflight", "plan", "systemd_plan", "systemd_rights", "systemd_make_kubeconfigs", "systemd_programs", "systemd_files"]
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [
            {
                "ansible.builtin.include_role": {"name": ROLE, "tasks_from": step, "rolespec_validate": False},
                "vars": {"__extended_scheduler_host": "host-1", "__extended_scheduler_rights_state": "present"},
            }
            for step in steps
        ],
    }
    playbook = folder / "play.yml"
    playbook.write_text(yaml.safe_dump([play]))
    given = yaml.safe_dump({f"extended_scheduler_{name}": value for name, value in variables.items()})
    (folder / "variables.yml").write_text(given)
    run = ansible_playbook(playbook, "-i", str(inventory), "-e", f"@{folder / 'variables.yml'}", folder=folder)
    assert run.code == 0, run.output
    (units,) = (folder / "etc" / "systemd").glob("units-*")
    return units


@contextlib.contextmanager
def process_of(unit: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a unit as systemd does: with its environment alone, in a folder with copies of its files."""
    lines = [line.partition("=") for line in unit.read_text().replace("\\\n", " ").splitlines()]
    values: dict[str, list[str]] = {}
    for name, _, value in lines:
        values.setdefault(name, []).append(value)
    credentials = folder / unit.stem
    credentials.mkdir()
    for credential in values["LoadCredential"]:
        name, _, path = credential.partition(":")
        (credentials / name).write_bytes(Path(path).read_bytes())
    environment = dict(line.split("=", 1) for line in values["Environment"])
    (command,) = values["ExecStart"]
    with (folder / f"{unit.stem}.log").open("wb") as log:
        process = subprocess.Popen(
            shlex.split(command), cwd=credentials, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=STOP_TIMEOUT_S)


def requests(cluster: Cluster, mark: int, user: str) -> list[AuditEvent]:
    found = cluster.audit().events(since=mark, user=user, stages=(STARTED, COMPLETE))
    return [event for event in found if event.resource]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_units_bind_a_pod_with_only_the_rights_of_their_users(
    cluster: Cluster, kubeadm_config: None, pods: WaitingPods, tmp_path: Path
) -> None:
    (port,) = ports.reserve(tmp_path / "secure-port", 1)
    mark = cluster.audit().mark()
    units = write_units(cluster, tmp_path, port)
    for file in (tmp_path / "etc").rglob("kubeconfig"):
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700), file
    assert "clusterrolebindings /kube-scheduling-host-scheduler-as-kube-scheduler" in installed(cluster)
    with contextlib.ExitStack() as running:
        running.enter_context(process_of(units / "kube-scheduling-extender-1.service", tmp_path))
        wait_until(lambda: answers("http://127.0.0.1:5501/readyz"), timeout_s=120, what="a ready extender")
        running.enter_context(process_of(units / "kube-scheduling-scheduler.service", tmp_path))
        wait_until(lambda: (cluster.api.find(LEASE) or {"spec": {}})["spec"].get("holderIdentity"), timeout_s=120, what="a leader")
        assert pods.bind(2, PROFILE) and pods.scheduled_by("pod-1") == PROFILE
        wait_until(
            lambda: "update" in {event.verb for event in requests(cluster, mark, SCHEDULER_USER) if event.resource == "leases"},
            what="a renewal of the Lease",
        )
    # What the extender has learned is saved at its end. Before the first save, the ConfigMap has no data.
    assert (cluster.api.find(STATE) or {}).get("data"), (tmp_path / "kube-scheduling-extender-1.log").read_text()
    for user, resources in ((SCHEDULER_USER, {"pods", "leases"}), (EXTENDER_USER, {"pods", "nodes", "configmaps"})):
        events = requests(cluster, mark, user)
        assert resources <= {event.resource for event in events}
        assert [(event.verb, event.path, event.user_agent) for event in events if event.code in (401, 403)] == []
    # The extender asked for nothing that its user may do as a scheduler.
    assert {event.verb for event in requests(cluster, mark, EXTENDER_USER) if event.resource == "pods"} <= {"get", "list", "watch"}
