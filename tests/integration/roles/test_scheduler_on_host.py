# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The shape systemd of the role extended_scheduler without systemd: a program in its place runs the command lines of the units.

The programs have the client certificates that the real kubeadm makes, and only the rights of the role.
"""

from __future__ import annotations

import os
import subprocess
import sys
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
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tests.integration.workloads import wait_until

__all__ = ["pods"]

SYSTEM, PROFILE = "kube-system", "network-traffic"
SCHEDULER_USER, EXTENDER_USER = "kube-scheduling-scheduler", "kube-scheduling-extender"
SYSTEMCTL = Path(__file__).with_name("systemctl.py")
ROLE = "onprem.kube_scheduling.extended_scheduler"

pytestmark = pytest.mark.usefixtures("as_root")


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


class HostRole:
    """The role for this machine, which is the host and the control plane. A program in a folder of the test is its systemd."""

    def __init__(self, cluster: Cluster, folder: Path, **variables: Any) -> None:
        self.folder, self.system = folder, folder / "system"
        self.system.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        (programs / "systemctl").write_text(f"#!{sys.executable}\n{SYSTEMCTL.read_text()}")
        (programs / "systemctl").chmod(0o755)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SYSTEM_FOLDER": str(self.system)}
        this = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        inventory = {"kube_control_plane": {"hosts": {"cp-1": this}}, "hosts": {"hosts": {"host-1": this, "host-2": gone}}}
        (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        given: dict[str, Any] = {
            "shape": "systemd",
            "hosts": ["host-1"],
            "become": False,
            "preset": "reward",
            "http_timeout": "20s",  # a busy machine may answer slowly
            "kubeconfig": str(cluster.kubeconfig),
            "binary_path": str(cluster.binary("kube-scheduler")),
            "python": sys.executable,
            "folder": str(folder / "etc"),
            "program_folder": str(folder / "opt"),
            **variables,
        }
        self.variables = {f"extended_scheduler_{name}": value for name, value in given.items()}
        self.variables["__extended_scheduler_system_folder"] = str(self.system)

    def run(self, *arguments: str, tasks_from: str = "main", **variables: Any) -> RoleRun:
        """Run the role. At its end it prints what is missing, if its tasks have read that."""
        include = {"name": ROLE, "tasks_from": tasks_from}
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
            "tasks": [
                {"ansible.builtin.include_role": include},
                {"ansible.builtin.debug": {"msg": "MISSING {{ __extended_scheduler_missing | default([]) }}"}},
            ],
        }
        playbook = self.folder / "play.yml"
        playbook.write_text(yaml.safe_dump([play]))
        given = self.variables | {f"extended_scheduler_{name}": value for name, value in variables.items()}
        (self.folder / "variables.yml").write_text(yaml.safe_dump(given))
        options = ["-i", str(self.folder / "inventory.yml"), "-e", f"@{self.folder / 'variables.yml'}", *arguments]
        return ansible_playbook(playbook, *options, folder=self.folder, environment=self.environment)

    def files(self) -> set[str]:
        """Return the files of the role, and the processes of units."""
        folders = [self.folder / name for name in ("etc", "opt", "system")]
        return {str(path.relative_to(self.folder)) for folder in folders for path in folder.rglob("*")}


@pytest.fixture
def host(cluster: Cluster, kubeadm_config: None, tmp_path: Path) -> Iterator[HostRole]:
    reservation = tmp_path / "secure-port"
    reservation.mkdir()
    (port,) = ports.reserve(reservation, 1)
    role = HostRole(cluster, tmp_path, secure_port=port, kubeadm=str(NODE.ensure(print) / "kubeadm"))
    yield role
    for unit in role.system.glob("*.service"):
        subprocess.run([tmp_path / "programs" / "systemctl", "disable", "--now", unit.name], env=role.environment, check=True)


def requests(cluster: Cluster, mark: int, user: str) -> list[AuditEvent]:
    found = cluster.audit().events(since=mark, user=user, stages=(STARTED, COMPLETE))
    return [event for event in found if event.resource]


def test_all_reasons_why_hosts_cannot_be_used_are_in_one_message_and_nothing_is_changed(cluster: Cluster, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\necho /usr/bin/python3.9 3.9\n")
    old.chmod(0o755)
    port = cluster.server.rpartition(":")[2]  # the API server has it
    given = {"binary_path": "/nowhere", "python": str(old), "secure_port": int(port), "scheduler_kubeconfig": "/no-kubeconfig"}
    role = HostRole(cluster, tmp_path, hosts=["host-1", "host-2"], extender_kubeconfig=str(cluster.kubeconfig), **given)
    run = role.run()
    assert run.code != 0 and run.changed == 0 and role.files() == set(), run.output
    for text in (
        "the controller has no file /nowhere, which extended_scheduler_binary_path names",
        "the controller has no file /no-kubeconfig, which extended_scheduler_scheduler_kubeconfig names",
        f"host-1: {old} is Python 3.9, and the extender needs one from 3.11 to 3.14",
        f":{port} is used by kube-apiserver (PID ",
        "host-2 cannot be reached: repair it, or remove it from extended_scheduler_hosts",
    ):
        assert run.in_one_line.count(text) >= 1, (text, run.output)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_units_bind_a_pod_with_only_the_rights_of_their_users(cluster: Cluster, host: HostRole, pods: WaitingPods) -> None:
    mark = cluster.audit().mark()
    planned = host.run("--check", "--diff")
    assert planned.code == 0 and planned.changed > 0 and host.files() == set(), planned.output
    assert "+ExecStart=" in planned.output
    done = host.run("-vvv", "--diff")
    assert done.code == 0, done.output
    for file in (host.folder / "etc").rglob("kubeconfig"):
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700), file
        assert file.read_text().partition("client-key-data: ")[2].split()[0] not in done.output
    assert "clusterrolebindings /kube-scheduling-host-scheduler-as-kube-scheduler" in installed(cluster)
    assert pods.bind(2, PROFILE) and pods.scheduled_by("pod-1") == PROFILE
    wait_until(
        lambda: "update" in {event.verb for event in requests(cluster, mark, SCHEDULER_USER) if event.resource == "leases"},
        what="a renewal of the Lease",
    )
    again, verified = host.run(), host.run(tasks_from="verify")
    assert (again.code, again.changed, verified.code) == (0, 0, 0) and "MISSING []" in verified.output, again.output + verified.output
    verified = host.run(tasks_from="verify", verbosity=3)
    assert "host-1: units differ from the variables, or do not run: run the playbook" in verified.in_one_line
    removed = host.run(state="absent")
    assert removed.code == 0 and removed.changed > 0 and host.files() == set(), removed.output
    assert host.run(state="absent").changed == 0
    for user, resources in ((SCHEDULER_USER, {"pods", "leases"}), (EXTENDER_USER, {"pods", "nodes", "configmaps"})):
        events = requests(cluster, mark, user)
        assert resources <= {event.resource for event in events}
        assert [(event.verb, event.path, event.user_agent) for event in events if event.code in (401, 403)] == []
    # The extender asked for nothing that its user may do as a scheduler.
    assert {event.verb for event in requests(cluster, mark, EXTENDER_USER) if event.resource == "pods"} <= {"list", "watch"}
