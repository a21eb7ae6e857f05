# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The static pod on its host, without a cluster: kubeadm makes the kubeconfig there, and a thread is the kubelet."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kind.programs import NODE
from tests.integration.roles.role_play import RolePlay, RoleRun
from tests.static_pods import enter, running_kubelet, static_pod

USER_OF_POD = 65532
SSH = """#!{python}
# Runs the command on this machine, and keeps each byte that ssh would transport.
import subprocess, sys
if sys.argv[1:] == ["-o", "ControlPersist"]:
    sys.exit(0)
given = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
done = subprocess.run(["/bin/sh", "-c", sys.argv[-1]], input=given, capture_output=True)
with open({log!r}, "ab") as log:
    log.write(sys.argv[-1].encode() + given + done.stdout + done.stderr)
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""

pytestmark = [
    pytest.mark.usefixtures("as_root"),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Host:
    """A host whose files are in a folder of the test, and which is reached by a recorded ssh."""

    role: RolePlay
    manifest: Path
    folder: Path
    recorded: Path

    def run(self, state: str, *arguments: str, **variables: Any) -> RoleRun:
        """Bring the static pod of this host into a state."""
        inventory = self.role.folder / "inventory.yml"
        return self.role.run("-i", str(inventory), *arguments, __critical_rescuer_host_state=state, **variables)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def field(self, part: str, name: str) -> str:
        document = yaml.safe_load(self.kubeconfig.read_text())
        return str(document[f"{part}s"][0][part][name])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    ssh, recorded = tmp_path / "ssh", tmp_path / "recorded"
    ssh.write_text(SSH.format(python=sys.executable, log=str(recorded)))
    ssh.chmod(0o755)
    variables = {
        "ansible_ssh_executable": str(ssh),
        "ansible_pipelining": True,
        "ansible_ssh_transfer_method": "piped",
        "ansible_python_interpreter": sys.executable,
    }
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"kube_control_plane": {"hosts": {"cp-1": variables}}}))
    manifest, folder = tmp_path / "rescuer.yaml", tmp_path / "rescuer"
    own = {
        "__critical_rescuer_host": "cp-1",
        "critical_rescuer_form": "static_pod",
        "critical_rescuer_image": "registry.example.org/kube-scheduling/services:1",
        "critical_rescuer_manifest_path": str(manifest),
        "critical_rescuer_static_folder": str(folder),
        "critical_rescuer_static_become": False,
        "critical_rescuer_wait_timeout": 0,
    }
    return Host(RolePlay("critical_rescuer", tmp_path, own, tasks_from="static_host"), manifest, folder, recorded)


@dataclass(frozen=True)
class Authority:
    """The certificate authority and the configuration of a cluster of kubeadm."""

    program: Path
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"critical_rescuer_kubeadm": str(self.program), "critical_rescuer_kubeadm_config": str(self.folder / "kubeadm.yml")}

    def make(self, server: str) -> None:
        """Make another authority, for a cluster with this address."""
        subprocess.run(["rm", "-rf", str(self.folder / "pki")], check=True)
        self.name(server)
        subprocess.run([str(self.program), "init", "phase", "certs", "ca", "--cert-dir", str(self.folder / "pki")], check=True)

    def name(self, server: str) -> None:
        """Give the cluster another address."""
        configuration = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": "v1.36.3",
            "certificatesDir": str(self.folder / "pki"),
            "controlPlaneEndpoint": server,
        }
        (self.folder / "kubeadm.yml").write_text(yaml.safe_dump(configuration))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(NODE.ensure(print) / "kubeadm", tmp_path)
    made.make("10.0.0.1:6443")
    return made


@pytest.mark.full
def test_kubeconfig_is_made_on_the_host_and_again_for_another_server_or_authority_and_its_mode_is_repaired(
    host: Host, authority: Authority
) -> None:
    planned = host.run("present", "--check", **authority.variables)
    assert planned.code == 0 and planned.changed and not host.folder.exists(), planned.output
    first = host.run("present", **authority.variables)
    assert first.code == 0 and host.field("cluster", "server") == "https://10.0.0.1:6443", first.output
    # Without the quotation marks a hash of digits would be a number, which the kubelet refuses.
    assert re.search(r'^ +"kube-scheduling.onprem/files-hash": "[0-9a-f]{12}",?$', host.manifest.read_text(), re.MULTILINE)
    key = host.field("user", "client-key-data")

    again = host.run("present", **authority.variables)
    assert again.code == 0 and again.changed == 0 and host.field("user", "client-key-data") == key, again.output

    host.kubeconfig.chmod(0o644)
    os.chown(host.kubeconfig, 0, 0)
    repaired = host.run("present", **authority.variables)
    assert repaired.code == 0 and repaired.changed == 1 and host.field("user", "client-key-data") == key, repaired.output
    assert (stat.S_IMODE(host.kubeconfig.stat().st_mode), host.kubeconfig.stat().st_uid) == (0o600, USER_OF_POD)

    authority.name("10.0.0.2:6443")
    assert host.run("present", "--check", **authority.variables).changed and host.field("user", "client-key-data") == key
    moved = host.run("present", **authority.variables)
    assert moved.code == 0 and host.field("cluster", "server") == "https://10.0.0.2:6443", moved.output
    certified = host.field("cluster", "certificate-authority-data")
    authority.make("10.0.0.2:6443")
    trusted = host.run("present", **authority.variables)
    assert trusted.code == 0 and host.field("cluster", "certificate-authority-data") != certified, trusted.output

    # Each of the keys begins alike, so that one of them finds all.
    transported = host.recorded.read_bytes()
    assert b"files-hash" in transported and key[:40].encode() not in transported and b"client-key-data" not in transported
    assert [re.sub("[0-9a-f]{12}", "HASH", file.name) for file in sorted(host.folder.iterdir())] == ["config-HASH.yml", "kubeconfig"]


@pytest.fixture
def kubelet(host: Host) -> Iterator[None]:
    with running_kubelet(host.manifest, "kube-scheduling-rescuer"):
        yield


@pytest.mark.full
@pytest.mark.usefixtures("kubelet")
def test_a_static_pod_is_ready_restored_verified_and_removed_without_the_api_server(host: Host, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {**authority.variables, "critical_rescuer_wait_timeout": 20, "critical_rescuer_port": port}
    first = host.run("present", **given)
    assert first.code == 0, first.output
    verified = host.run("verified", "-v", **given)
    assert verified.code == 0 and '"problems": []' in verified.output and "expires in 364 days" in verified.output, verified.output

    worked = host.manifest.read_text()
    failed = host.run("present", **given, critical_rescuer_image="broken")
    assert failed.code == 2 and "cp-1: the static pod kube-scheduling-rescuer is not ready after 20 s: " in failed.in_one_line, (
        failed.output
    )
    assert "The manifest that worked before is restored" in failed.in_one_line and host.manifest.read_text() == worked
    again = host.run("present", **given)
    assert again.code == 0 and again.changed == 0, again.output

    removed = host.run("absent", **given)
    assert removed.code == 0 and removed.changed == 1 and not host.folder.exists() and not host.manifest.exists(), removed.output
    assert host.run("absent", **given).changed == 0


def test_folder_with_files_of_others_is_refused_and_not_removed(host: Host) -> None:
    host.folder.mkdir(mode=0o755)
    for name in ("admin.conf", "kubeconfig", ".kubeconfig-aB3", "config.yml"):
        (host.folder / name).write_text("x\n")
    checked = host.run("checked", "-v")
    assert checked.code == 0 and "cp-1: critical_rescuer_static_folder is" in checked.in_one_line, checked.output
    assert "which has other files (admin.conf): " in checked.in_one_line
    assert stat.S_IMODE(host.folder.stat().st_mode) == 0o755 and host.folder.stat().st_uid == 0

    assert host.run("absent", "--check").changed == 1 and len(list(host.folder.iterdir())) == 4
    removed = host.run("absent")
    assert removed.code == 0 and removed.changed == 1 and [file.name for file in host.folder.iterdir()] == ["admin.conf"], removed.output
    (host.folder / "admin.conf").unlink()
    assert host.run("absent").code == 0 and not host.folder.exists()
    assert host.run("absent").changed == 0


def test_removal_after_an_interrupted_one_waits_for_the_end_of_the_program(host: Host) -> None:
    """The manifest is gone already, and the program still runs."""
    host.folder.mkdir()
    host.kubeconfig.write_text("x\n")
    kept: list[bool] = []
    with static_pod("kube-scheduling-rescuer") as cgroup, subprocess.Popen(["sleep", "613"]) as program:
        enter(cgroup, program.pid)

        def end_when_the_role_waits() -> None:
            kept.append(host.kubeconfig.exists())
            program.kill()

        timer = threading.Timer(15, end_when_the_role_waits)
        timer.start()
        removed = host.run("absent")
        timer.join()
    assert removed.code == 0 and kept == [True] and not host.folder.exists(), removed.output
