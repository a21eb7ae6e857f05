# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The commands of the guides for the scenario `lifecycle` also work on a lab cluster, on which the same objects are installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster
from tests.integration.playbooks.site_runs import IMAGE, LOCAL, Site, site
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.role_play import RolePlay
from tests.molecule import kind_blocks

__all__ = ["cluster", "site"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture
def arguments(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the program, with an inventory of the cluster."""
    inventory = tmp_path / "hosts.yml"
    variables = {"site_kubeconfig": str(cluster.kubeconfig), "spread_cronjob_schedule": "0 0 1 1 *", **IMAGE}
    inventory.write_text(json.dumps({"all": {"hosts": {"localhost": LOCAL}, "vars": variables}}))
    monkeypatch.setenv("ANSIBLE_CONFIG", str(REPOSITORY / "ansible.cfg"))
    return [f"--inventory={inventory}", f"--kubeconfig={cluster.kubeconfig}"]


def test_the_commands_for_an_installed_cluster_change_nothing_and_fail_if_a_part_is_missing(
    cluster: Cluster, site: Site, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    made = site.play("site")
    assert made.code == 0, made.output
    before = installed(cluster)

    assert kind_blocks.main(["--part=installed", *arguments]) == 0, capfd.readouterr()

    assert installed(cluster) == before
    remove_all(cluster)
    assert kind_blocks.main(["--part=installed", *arguments]) == 1
    assert "docs/install.md" in capfd.readouterr().err


def test_the_command_for_a_second_scheduler_removes_it(
    cluster: Cluster, tmp_path: Path, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    variables = {"extended_scheduler_kubeconfig": str(cluster.kubeconfig), "extended_scheduler_extender_image": "x"}
    made = RolePlay("extended_scheduler", tmp_path, variables).run(extended_scheduler_wait_timeout=0)
    assert made.code == 0, made.output
    assert any("kube-scheduling-scheduler" in name for name in installed(cluster))

    assert kind_blocks.main(["--part=scheduler", *arguments]) == 0, capfd.readouterr()

    assert installed(cluster) == set()
