# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared cluster, whose nodes each test leaves as it found them, and a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules

_NUMBERS = itertools.count(1)


@pytest.fixture
def cluster(lab_cluster: Cluster) -> Cluster:
    """Six workers in two zones and three racks, and one tainted control-plane node."""
    return lab_cluster


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
    api = cluster.api
    for resource in ("apis/apps/v1/namespaces/{}/deployments", "apis/apps/v1/namespaces/{}/statefulsets", "api/v1/namespaces/{}/pods"):
        api.request("DELETE", "/" + resource.format(name), {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
