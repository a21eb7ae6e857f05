# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster for each file of module tests (they cordon nodes and fill them), and a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.modules.module_process import Modules

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    """Six workers in two zones and three racks, and one tainted control-plane node."""
    return fresh_module_cluster()


@pytest.fixture
def modules(cluster: Cluster) -> Modules:
    """The modules with the cluster's administrator as their user."""
    return Modules(cluster.kubeconfig)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """An annotated namespace; its workloads are gone when the test ends, so that they hold no room."""
    name = f"test-{next(_NUMBERS)}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {"collectdeployments": "allow"}}})
    cluster.wait_namespace(name)
    yield name
    cluster.kubectl("delete", "deployment,statefulset", "--all", "-n", name, "--wait=false")
    cluster.kubectl("delete", "pods", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false")
