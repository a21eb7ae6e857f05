# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster of the tests that list what a role has installed."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from tests.integration.roles.installed import installed


@pytest.fixture(scope="module")
def cluster(lab_cluster: Cluster) -> Cluster:
    """The shared cluster, whose nodes run pods as simulated ones. A test before these has to delete its objects of this collection."""
    left = installed(lab_cluster)
    assert not left, f"a test of another module has left objects that look like those of a role: {sorted(left)}"
    return lab_cluster
