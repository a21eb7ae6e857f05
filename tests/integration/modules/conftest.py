# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared cluster, whose nodes each test leaves as it found them, and a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import wait_until

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
    """An annotated namespace. Its workloads are deleted when the test ends, so that they use no capacity."""
    name = f"test-{next(_NUMBERS)}"
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {"kube-scheduling.onprem/spread": "allow"}}}
    )
    cluster.wait_namespace(name)
    yield name
    wait_until(lambda: _is_empty(cluster, name), what=f"the end of the pods of namespace {name}")


def _is_empty(cluster: Cluster, namespace: str) -> bool:
    """Delete everything that makes pods, and the pods; a ReplicaSet may make pods until the controllers have deleted it."""
    makers = [f"/apis/apps/v1/namespaces/{namespace}/{plural}" for plural in ("deployments", "statefulsets", "replicasets")]
    paths = [*makers, f"/api/v1/namespaces/{namespace}/pods"]
    for path in paths:
        cluster.api.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    return not any(cluster.get(path)["items"] for path in paths)
