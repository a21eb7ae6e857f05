# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The static pod of the extenders of the shape kubeadm, on this machine, with a thread as its kubelet."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.roles.role_play import RolePlay
from tests.static_pods import issued_kubeconfig, running_kubelet

KUBEADM = """#!/bin/sh
grep --quiet ClusterConfiguration || exit 1
cat {folder}/made
"""

pytestmark = [pytest.mark.usefixtures("as_root"), pytest.mark.timeout(600), pytest.mark.full]


def files(ports: Sequence[int], *names: str) -> dict[str, Any]:
    """Return the plan with these extenders. Their ports are free here, which those of the role need not be."""
    given = zip(range(1, 9), ports, names, strict=False)
    extenders = [
        {"name": f"extender-{n}", "port": port, "status_port": port, "settings": {"name": name}, "files": []} for n, port, name in given
    ]
    return {"__extended_scheduler_files": {"extenders": extenders, "source_hosts": []}}


def containers(manifest: Path) -> list[tuple[str, str]]:
    """Return the name of each container, and the name of its settings without the hash."""
    found = yaml.safe_load(manifest.read_text())["spec"]["containers"]
    return [(one["name"], one["args"][2].rpartition("/")[2]) for one in found]


def test_old_and_new_extenders_run_together_while_the_schedulers_are_changed(tmp_path: Path) -> None:
    kubeadm, folder, manifest = tmp_path / "kubeadm", tmp_path / "folder", tmp_path / "extender.yaml"
    kubeadm.write_text(KUBEADM.format(folder=tmp_path))
    kubeadm.chmod(0o755)
    (tmp_path / "made").write_text(issued_kubeconfig(user="kube-scheduling-extender"))
    given: dict[str, Any] = {
        "extended_scheduler_shape": "kubeadm",
        "extended_scheduler_become": False,
        "extended_scheduler_folder": str(folder),
        "extended_scheduler_extender_manifest_path": str(manifest),
        "extended_scheduler_extender_image": "registry.example.org/services:1",
        "extended_scheduler_kubeadm": str(kubeadm),
        "extended_scheduler_wait_timeout": 20,
        "__extended_scheduler_host": "localhost",
        "__extended_scheduler_host_state": "extender",
        "__extended_scheduler_found": {},
        "__extended_scheduler_errors": [],
        "__extended_scheduler_plan_options": {"cluster": "kind: ClusterConfiguration"},
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    role = RolePlay("extended_scheduler", tmp_path, given, tasks_from="kubeadm_host")
    with socket.create_server(("127.0.0.1", 0)) as one_port, socket.create_server(("127.0.0.1", 0)) as other_port:
        ports = [one_port.getsockname()[1], other_port.getsockname()[1]]
    two, one = files(ports, "a", "b"), files(ports, "c")
    with running_kubelet(manifest, "kube-scheduling-extender"):
        assert role.run("--check", **two).changed == 1 and not folder.exists()
        first = role.run(**two)
        assert first.code == 0 and first.changed == 1, first.output
        (a, b) = containers(manifest)

        during = role.run(**one, __extended_scheduler_with_earlier=True)
        assert during.code == 0 and during.changed == 1, during.output
        (c, kept) = containers(manifest)
        assert kept == b and c[0] == a[0] and c[1] != a[1]
        assert sorted(path.name for path in (folder / "extender").iterdir()) == sorted(["kubeconfig", b[1], c[1]])
        assert role.run(**one, __extended_scheduler_with_earlier=True).changed == 0

        final = role.run(**one)
        assert final.code == 0 and final.changed == 1 and containers(manifest) == [c], final.output
        assert sorted(path.name for path in (folder / "extender").iterdir()) == sorted(["kubeconfig", c[1]])
        assert role.run(**one).changed == 0

        worked = manifest.read_text()
        broken = role.run(**two, extended_scheduler_extender_image="broken")
        assert broken.code == 2 and "localhost: the static pod kube-scheduling-extender is not ready after 20 s: " in broken.in_one_line
        assert "The manifest that worked before is restored" in broken.in_one_line and manifest.read_text() == worked
        verified = role.run("-v", **two, __extended_scheduler_extender_state="verified")
        assert "localhost: the static pod kube-scheduling-extender is not as the variables say: " in verified.in_one_line, verified.output
