# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The oracle for scores: a cluster of its own, whose second scheduler writes its scores into its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.kwok_config import Variant
from lab.pytest_fixtures import ClusterFactory
from lab.second_scheduler import LOG_SCORES, second_scheduler
from tests.integration.oracle.scores.profiles import configuration
from tests.integration.oracle.scores.world import ScoreWorld

# By default the API server gives every new node a taint.
VARIANT = Variant("scores", disable_limits=True, api_server_args=(("disable-admission-plugins", "TaintNodesByCondition"),))


@pytest.fixture(scope="module")
def score_world(fresh_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoreWorld]:
    """A cluster for cases."""
    cluster = fresh_module_cluster(None, variant=VARIANT)
    reader = KubeApi(open_transport(user_agent="oracle", kubeconfig=str(cluster.kubeconfig)))
    folder: Path = tmp_path_factory.mktemp("scores")
    with ScoreWorld(cluster, reader, folder) as world:
        world.prepare()
        with second_scheduler(cluster, configuration(), folder, flags=LOG_SCORES):
            yield world
