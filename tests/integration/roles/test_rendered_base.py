# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The base for kustomize in deploy/ is what the roles render, and the API server accepts it."""

from __future__ import annotations

from pathlib import Path

from lab.cluster import Cluster
from tests.integration.roles.installed import remove_all
from tools.rendered_base import BASE, render


def test_the_base_in_the_repository_is_what_the_roles_render(tmp_path: Path) -> None:
    render(tmp_path)
    rendered, kept = ({file.name: file.read_text() for file in folder.glob("*.yaml")} for folder in (tmp_path, BASE))
    assert rendered == kept, "run `make deploy`"


def test_the_api_server_accepts_each_object_of_the_base(cluster: Cluster) -> None:
    cluster.apply((BASE / "namespace.yaml").read_text())
    applied = cluster.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", str(BASE))
    for name in ("deployment.apps/kube-scheduling-rescuer", "cronjob.batch/kube-scheduling-rebalancer"):
        assert f"{name} serverside-applied" in applied
    remove_all(cluster)
