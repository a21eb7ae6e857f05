# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""site.yml with --limit for a new node, which gets the image. A script is the node's ctr, and no cluster is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.layout import REPOSITORY
from tests.integration.playbooks.archived_image import PIN, containerd_client, saved_image
from tests.integration.playbooks.site_runs import LOCAL
from tests.integration.roles.role_play import ansible_playbook

pytestmark = pytest.mark.timeout(1800)


def test_a_new_node_gets_the_pinned_image_by_a_run_with_limit(tmp_path: Path) -> None:
    reference, image = saved_image(tmp_path)
    new = {**LOCAL, "service_image_ctr": containerd_client(tmp_path, "new", reference=reference, labels=None)}
    inventory = tmp_path / "nodes.yml"
    # The other node cannot be reached, and is not read.
    nodes = {"node-1": {"ansible_host": "127.0.0.1", "ansible_port": 1}, "node-2": new}
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes}}))
    arguments = ("-i", str(inventory), "--limit", "node-2", "-e", json.dumps(image))
    run = ansible_playbook(REPOSITORY / "playbooks" / "site.yml", *arguments, folder=tmp_path)
    assert run.code == 0 and "node-1" not in run.output and "localhost" not in run.output.partition("PLAY RECAP")[2], run.output
    assert (tmp_path / "new.labels").read_text().strip() == PIN
    assert list(tmp_path.glob("kube-scheduling-image-*")) == []
