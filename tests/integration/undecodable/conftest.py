# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster whose scheduler does not preempt, and a proxy before it that changes what it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.rescue.conftest import cluster, rescues, scene
from tests.integration.rescuer.conftest import daemons
from tests.integration.undecodable.tampering import Proxy

__all__ = ["cluster", "daemons", "proxy", "rescues", "scene"]


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[Proxy]:
    """Serves the cluster's API; ``change`` says what it serves otherwise."""
    made = Proxy(cluster, tmp_path / "proxy.kubeconfig")
    yield made
    made.close()
