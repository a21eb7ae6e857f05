# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each job template runs on a real control plane, from the defaults of its survey and with answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.awx.controller import Controller, controller
from tests.integration.awx.launch import Launcher, Packages
from tests.integration.awx.setup_run import set_up
from tests.integration.workloads import deployment, pile_up


@pytest.fixture(scope="module")
def served(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller with the objects of the playbook. Its kubeconfig is that of the cluster."""
    with controller() as served:
        nodes = {
            "kube_control_plane": {"master": {"ansible_connection": "local"}},
            "kube_node": {"worker": {"ansible_connection": "local"}},
        }
        run = set_up(
            served,
            tmp_path_factory.mktemp("awx"),
            awx_setup_credential="kubeconfig",
            awx_setup_kubeconfig_path=str(lab_cluster.kubeconfig),
            awx_setup_nodes=nodes,
        )
        assert run.code == 0, run.output
        yield served


@pytest.fixture(scope="module")
def launcher(served: Controller, packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return Launcher(served, packages, tmp_path_factory.mktemp("jobs"))


def test_spread_check_finds_a_collapsed_workload_from_the_defaults_of_its_survey(
    lab_cluster: Cluster, namespaces: NamespaceFactory, launcher: Launcher
) -> None:
    namespace = namespaces("piled", annotations={"collectdeployments": "allow"})
    pile_up(lab_cluster, deployment(namespace, "web", 3))
    job = launcher.launch("spread-check")
    assert job.status == "successful", job.output
    numbers = job.artifacts["kube_scheduling_rebalance"]["cluster"]
    assert numbers["ok"] and numbers["collapsed_before"] >= 1 and numbers["restartable"] >= 1
    assert f"deploy {namespace}/web" in job.output
