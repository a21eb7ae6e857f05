# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The oracle: a cluster of its own whose second scheduler is asked, and never binds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.kwok_config import Variant
from lab.pytest_fixtures import ClusterFactory
from lab.recorder import recording
from lab.second_scheduler import second_scheduler
from tests.integration.oracle.profiles import FEATURE_GATES, configuration
from tests.integration.oracle.world import World

# Taints are those of the case alone: by default the API server gives every new node one more. Nobody takes the finalizers of claims
# and volumes away again.
VARIANT = Variant(
    "oracle",
    disable_limits=True,
    api_server_args=(*FEATURE_GATES, ("disable-admission-plugins", "TaintNodesByCondition,StorageObjectInUseProtection")),
)


@pytest.fixture(scope="module")
def world(fresh_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster to put cases into."""
    cluster = fresh_module_cluster(None, variant=VARIANT)
    reader = KubeApi(open_transport(user_agent="oracle", kubeconfig=str(cluster.kubeconfig)))
    folder: Path = tmp_path_factory.mktemp("oracle")
    flags = [f"--{name}={value}" for name, value in FEATURE_GATES]
    with recording() as recorder, World(cluster, reader, recorder) as made:
        made.prepare()
        with second_scheduler(cluster, configuration(recorder.url), folder, flags=flags):
            yield made
