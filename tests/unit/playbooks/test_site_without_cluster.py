# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs of site.yml for which no API server is needed, because they end before its first answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.layout import REPOSITORY
from tests.integration.roles.role_play import RoleRun, ansible_playbook

IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}


CONTEXT = {"name": "first", "context": {"cluster": "first", "user": "first"}}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "first", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "first", "user": {"token": "none"}}],
    "contexts": [CONTEXT],
    "current-context": "first",
}


def stats_of(run: RoleRun, name: str) -> dict[str, Any]:
    """Return the numbers that a playbook reports with set_stats, by host."""
    found = re.search(r"^\s*RUN: (\{.*\})$", run.output, re.MULTILINE)
    assert found, run.output
    stats: dict[str, Any] = json.loads(found.group(1))[name]
    return stats


def site(folder: Path, *arguments: str, **variables: Any) -> RoleRun:
    return ansible_playbook(REPOSITORY / "playbooks" / "site.yml", *arguments, "-e", json.dumps(IMAGE | variables), folder=folder)


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"site_kubeconfig": "FILE", "site_context": "of-site"}, "of-site"),
        ({"site_kubeconfig": "FILE", "site_context": "of-site", "rebalance_context": "of-rebalance"}, "of-rebalance"),
        # A context belongs to its kubeconfig.
        ({"site_kubeconfig": "FILE", "site_context": "of-site", "rebalance_kubeconfig": "/nowhere/rebalance"}, "/nowhere/rebalance"),
    ],
)
def test_the_tag_rebalance_works_on_the_cluster_of_site_yml(tmp_path: Path, variables: dict[str, str], error: str) -> None:
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    given = {name: str(tmp_path / "kubeconfig") if value == "FILE" else value for name, value in variables.items()}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"bastion": {"ansible_connection": "local"}}}}))
    run = site(tmp_path, "--tags", "rebalance", "-i", str(inventory), site_cluster_hosts="bastion", **given)
    assert run.code == 2 and error in stats_of(run, "kube_scheduling_rebalance")["bastion"]["error"], run.output
