# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""uninstall.yml reads the nodes with each delivery of the image. A script is the node's ctr, and no cluster is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.layout import REPOSITORY
from tests.integration.playbooks.site_runs import LOCAL
from tests.integration.roles.role_play import ansible_playbook
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


DELIVERIES: dict[str, tuple[dict[str, str], bool]] = {
    "archive": ({"service_image_delivery": "archive"}, True),
    "registry": ({"service_image_delivery": "registry", "service_image_registry": "registry.example.org/platform"}, True),
    "preloaded": ({"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/services:1"}, True),
    "preloaded-own": ({"service_image_delivery": "preloaded", "service_image_reference": OWN}, False),
}
"""The variables of a node, and whether its image is removed."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The calls of ctr on each node, after a run for these nodes and one that cannot be reached. No host is a cluster."""
    folder = tmp_path_factory.mktemp("nodes")
    socket = folder / "containerd.sock"
    socket.touch()
    hosts: dict[str, dict[str, Any]] = {"lost": {"ansible_host": "127.0.0.1", "ansible_port": 1}}
    for node, (delivery, _is_removed) in DELIVERIES.items():
        program = folder / node / "ctr"
        program.parent.mkdir()
        program.write_text(CTR)
        program.chmod(0o755)
        hosts[node] = {**LOCAL, **delivery, "service_image_ctr": [str(program)]}
    inventory = folder / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": hosts}}))
    given = {
        "site_cluster_hosts": "no_cluster",
        "service_image_containerd_socket": str(socket),
        "service_image_archive_folder": str(folder / "archives"),
    }
    playbook = REPOSITORY / "playbooks" / "uninstall.yml"
    done = ansible_playbook(playbook, "-i", str(inventory), "-e", json.dumps(given), folder=folder)
    # The last play names the node that cannot be reached.
    assert done.code == 0 and "failed=0" in done.output, done.output
    return {node: (folder / node / "calls").read_text().splitlines() for node in DELIVERIES}


@pytest.mark.parametrize("node", DELIVERIES)
def test_the_image_of_an_archive_is_removed_with_each_delivery(node: str, calls: dict[str, list[str]]) -> None:
    removed = [call for call in calls[node] if "images remove" in call]
    assert len(removed) == DELIVERIES[node][1] and all(call.endswith(OWN) for call in removed), calls[node]
