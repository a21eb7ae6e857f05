# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared cluster whose scheduler does not preempt, and a scene on it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import Scene, prepared_for_scenes


@pytest.fixture(scope="module")
def cluster(budget_safe_cluster: Cluster) -> Iterator[Cluster]:
    """Every eviction is that of the tested program, so that budgets are checked over all requests."""
    yield from prepared_for_scenes(budget_safe_cluster)


@pytest.fixture(scope="module")
def separate_cluster(fresh_module_cluster: ClusterFactory) -> Iterator[Cluster]:
    """A cluster of the same kind for one file: one that stops or kills components, or that runs long before the other files.

    An idle cluster costs 4 % of a core, and a start as much as 200 s of that.
    """
    yield from prepared_for_scenes(fresh_module_cluster("single-worker", variant="budget_safe"))


@pytest.fixture(scope="module")
def preempting_cluster(lab_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster with the scheduler as it comes."""
    yield from prepared_for_scenes(lab_cluster)


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
