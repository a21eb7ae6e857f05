# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster on which the random clusters are created, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.kwok_config import Variant
from lab.pytest_fixtures import ClusterFactory
from tests.integration.prediction.case_world import CaseWorld

# By default the API server gives every new node a taint until the controller manager has seen it.
VARIANT = Variant("prediction", disable_limits=True, api_server_args=(("disable-admission-plugins", "TaintNodesByCondition"),))


@pytest.fixture(scope="module")
def world(fresh_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseWorld]:
    """A cluster without nodes and without a scheduler."""
    cluster = fresh_module_cluster(None, variant=VARIANT)
    folder: Path = tmp_path_factory.mktemp("prediction")
    with CaseWorld(cluster, folder, log_scores=bool(os.environ.get("PREDICTION_LOG"))) as made:
        made.prepare()
        yield made
