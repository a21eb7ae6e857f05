# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared cluster as the collection's own API client sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory


@pytest.fixture(scope="module")
def cluster(lab_cluster: Cluster) -> Cluster:
    """Six workers in two zones and three racks, and one tainted control-plane node."""
    return lab_cluster


@pytest.fixture(scope="module")
def user(cluster: Cluster) -> Path:
    """A user to whom roles apply, unlike the administrator."""
    return cluster.service_account("kube-tests")


@pytest.fixture(scope="module")
def api(user: Path) -> KubeApi:
    """As that user."""
    return KubeApi(open_transport(user_agent="onprem-kube-tests", kubeconfig=str(user)))


@pytest.fixture(scope="module")
def namespace(namespaces: NamespaceFactory) -> str:
    """For all tests of the module."""
    return namespaces("kube")
