# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""uninstall.yml reads the nodes with each delivery of the image. A script is the node's ctr, and no cluster is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.layout import REPOSITORY
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tools.collection_version import current

OWN = f"kube-scheduling.onprem/services:{current(REPOSITORY)}-abc"
CTR = f"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in
  *"images list"*)
    echo "REF TYPE DIGEST SIZE PLATFORMS LABELS"
    echo "{OWN} application/x sha256:1 20.1 MiB linux/amd64 io.cri-containerd.pinned=pinned"
    echo "docker.io/library/web:1 application/x sha256:2 20.1 MiB linux/amd64 -";;
  *"containers list"*) echo "CONTAINER IMAGE RUNTIME";;
esac
"""


def uninstall(folder: Path, **variables: str) -> RoleRun:
    """Run the playbook for a node on this machine and for one that cannot be reached. No host is a cluster."""
    program, socket = folder / "ctr", folder / "containerd.sock"
    program.write_text(CTR)
    program.chmod(0o755)
    socket.touch()
    here = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    hosts = {"here": here, "lost": {"ansible_host": "127.0.0.1", "ansible_port": 1}}
    inventory = folder / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": hosts}}))
    given = {
        "site_cluster_hosts": "no_cluster",
        "service_image_ctr": [str(program)],
        "service_image_containerd_socket": str(socket),
        "service_image_archive_folder": str(folder / "archives"),
    }
    playbook = REPOSITORY / "playbooks" / "uninstall.yml"
    return ansible_playbook(playbook, "-i", str(inventory), "-e", json.dumps(given | variables), folder=folder)


@pytest.mark.parametrize(
    ("variables", "is_removed"),
    [
        ({"service_image_delivery": "archive"}, True),
        ({"service_image_delivery": "registry", "service_image_registry": "registry.example.org/platform"}, True),
        ({"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/services:1"}, True),
        ({"service_image_delivery": "preloaded", "service_image_reference": OWN}, False),
    ],
)
def test_the_image_of_an_archive_is_removed_with_each_delivery(variables: dict[str, str], is_removed: bool, tmp_path: Path) -> None:
    done = uninstall(tmp_path, **variables)
    # The last play names the node that cannot be reached.
    assert done.code == 0 and "failed=0" in done.output, done.output
    removed = [call for call in (tmp_path / "calls").read_text().splitlines() if "images remove" in call]
    assert len(removed) == is_removed and all(call.endswith(OWN) for call in removed), done.output
