# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The base for kustomize in deploy/ is what the roles render, and the API server accepts it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lab.cluster import Cluster
from tests.guide_blocks import blocks
from tests.integration.roles.installed import remove_all
from tools.collection_version import current
from tools.paths import ROOT
from tools.rendered_base import BASE, render

GUIDE = Path("docs/gitops.md")
OVERLAY = "# kube-scheduling/kustomization.yaml"


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


def test_the_overlay_of_the_guide_replaces_the_image_and_its_commands_work(cluster: Cluster, tmp_path: Path) -> None:
    (overlay,) = [block.text for block in blocks(GUIDE) if block.text.startswith(OVERLAY)]
    (commands,) = [block.script for block in blocks(GUIDE) if block.mark == f"run: {Path(__file__).relative_to(ROOT)}"]
    folder = tmp_path / "kube-scheduling"
    folder.mkdir()
    shutil.copytree(BASE, folder / "deploy")
    (folder / "kustomization.yaml").write_text(overlay)
    path = os.pathsep.join([str(cluster.binary("kubectl").parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}

    done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    for name in ("deployment.apps/kube-scheduling-rescuer", "cronjob.batch/kube-scheduling-rebalancer"):
        assert f"{name} serverside-applied (server dry run)" in done.stdout
    objects = cluster.kubectl("kustomize", str(folder))
    assert f"image: registry.example.org/platform/services:{current(ROOT)}" in objects and "kube-scheduling.onprem/services" not in objects
    remove_all(cluster)
