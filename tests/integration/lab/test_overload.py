# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The overload flavour answers a user's parallel requests with real 429s, and nobody else's."""

from __future__ import annotations

import http.client
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory

REQUESTS = 60


@pytest.fixture(scope="module")
def overloaded(fresh_module_cluster: ClusterFactory) -> Cluster:
    return fresh_module_cluster(flavour="overload")


class User:
    """A service account that lists nodes."""

    def __init__(self, cluster: Cluster) -> None:
        kubeconfig = yaml.safe_load(cluster.service_account("user").read_text())
        self.token = kubeconfig["users"][0]["user"]["token"]
        self.address = cluster.server.removeprefix("https://")
        self.tls = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))

    def list_nodes(self, times: int) -> Counter[tuple[int, bool]]:
        """Status of each answer, and whether it says when to come again."""
        connection = http.client.HTTPSConnection(self.address, context=self.tls)
        seen: Counter[tuple[int, bool]] = Counter()
        for _ in range(times):
            connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            answer.read()
            seen[answer.status, "Retry-After" in answer.headers] += 1
        return seen


def test_one_request_at_a_time_is_never_refused(overloaded: Cluster) -> None:
    assert User(overloaded).list_nodes(REQUESTS) == {(200, False): REQUESTS}


def test_parallel_requests_meet_429_with_retry_after(overloaded: Cluster) -> None:
    user = User(overloaded)
    with ThreadPoolExecutor(16) as pool:
        seen = sum(pool.map(user.list_nodes, [REQUESTS] * 16), Counter())
    assert set(seen) == {(429, True), (200, False)}
    refused = [event for event in overloaded.audit().events(resource="nodes", verb="list") if event.code == 429]
    assert len(refused) == seen[429, True]


def test_administrator_is_exempt(overloaded: Cluster) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = set(pool.map(lambda _: overloaded.api.request("GET", "/api/v1/nodes").status, range(80)))
    assert codes == {200}
