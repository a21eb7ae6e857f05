# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster of the tests that list what a role has installed."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(lab_cluster: Cluster) -> Cluster:
    """The shared cluster, whose nodes run pods as simulated ones."""
    return lab_cluster
