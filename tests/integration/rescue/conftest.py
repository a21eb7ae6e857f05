# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster whose scheduler does not preempt, and a scene on it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import Scene, priority_classes


def budget_safe_cluster(make: ClusterFactory) -> Cluster:
    """Return a cluster without DefaultPreemption: its default scheduler deletes no pod."""
    made = make("single-worker", variant="budget_safe")
    made.apply(priority_classes())
    return made


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    """Every eviction is that of the tested program, so that budgets are checked over all requests."""
    return budget_safe_cluster(fresh_module_cluster)


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    # A scheduler that cannot renew its Lease ends. That happens if the machine stands still for 10 s.
    cluster.repair()
    made = Scene(cluster)
    yield made
    made.close()


@pytest.fixture
def rescues(cluster: Cluster) -> Rescues:
    """k8s_critical_rescue as a user to whom roles apply, unlike the administrator."""
    return Rescues(cluster, cluster.service_account("rescues"))
