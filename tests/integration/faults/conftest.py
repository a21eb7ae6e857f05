# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that may be broken, with so many pods that a list of them takes two pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.kwok_config import VARIANTS
from lab.pytest_fixtures import ClusterFactory, delete_namespace
from tests.integration.faults.crowd import load_crowd

OVERLOAD = VARIANTS["overload"]
# An API server that gives up on a request as soon as this, that has no memory of its own for the next page of a list, and that stores no
# matchLabelKeys of spread constraints, as before Kubernetes 1.27.
OFF = ("ListFromCacheSnapshot", "MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge")
IMPATIENT = dataclasses.replace(
    OVERLOAD,
    name="impatient",
    api_server_args=(*OVERLOAD.api_server_args, ("request-timeout", "3s"), ("feature-gates", ",".join(f"{gate}=false" for gate in OFF))),
)


@pytest.fixture(scope="module")
def crowded(lab_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, with a crowd."""
    namespace = load_crowd(lab_cluster)
    yield lab_cluster
    lab_cluster.bulk_unload("Pod", namespace)
    delete_namespace(lab_cluster.api, namespace)


@pytest.fixture(scope="module")
def impatient(fresh_module_cluster: ClusterFactory) -> Cluster:
    """A cluster with a crowd, the limits of variant overload, and an API server that gives up after three seconds."""
    cluster = fresh_module_cluster(variant=IMPATIENT)
    for manifest in OVERLOAD.manifests():
        cluster.apply(manifest)
    load_crowd(cluster)
    return cluster
