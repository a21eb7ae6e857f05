# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs of site.yml, verify.yml and uninstall.yml for the tests of these playbooks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster
from tests.integration.roles.installed import let_pods_stop
from tests.integration.roles.role_play import RoleRun, ansible_playbook

__all__ = ["cluster"]

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}
SCHEDULER = {"ok": True, "changed": True, "error": ""}
"""Numbers of each run of scheduler.yml."""
EMPTY_NAMESPACE = {
    "namespaces /kube-scheduling",
    "configmaps kube-scheduling/kube-root-ca.crt",
    "serviceaccounts kube-scheduling/default",
}


class Site:
    """The three playbooks for one cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self.folder = cluster, folder

    def play(self, playbook: str, *arguments: str, **variables: Any) -> RoleRun:
        given = {"site_kubeconfig": str(self._cluster.kubeconfig), "spread_cronjob_schedule": "0 0 1 1 *", **IMAGE, **variables}
        if playbook == "uninstall":
            let_pods_stop(self._cluster)
        file = playbook if "." in playbook else REPOSITORY / "playbooks" / f"{playbook}.yml"
        return ansible_playbook(file, *arguments, "-e", json.dumps(given), folder=self.folder)

    def importing(self, playbook: str) -> str:
        """Return a playbook in another folder that imports this one."""
        file = self.folder / "cluster.yml"
        file.write_text(json.dumps([{"ansible.builtin.import_playbook": playbook}]))
        return str(file)


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    return Site(cluster, tmp_path)


def stats_of(run: RoleRun, name: str, host: str = "localhost") -> dict[str, Any]:
    """The numbers that a playbook reports with set_stats."""
    found = re.search(r"^\s*RUN: (\{.*\})$", run.output, re.MULTILINE)
    assert found, run.output
    stats: dict[str, Any] = json.loads(found.group(1))[name][host]
    return stats
