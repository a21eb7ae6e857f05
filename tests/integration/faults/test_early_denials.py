# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server denies what it allows a moment later: until it has read all roles, every user outside system:masters gets 403."""

from __future__ import annotations

import threading
import time

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES, PODS

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.requests_seen import AGENT, requests_seen
from tests.integration.workloads import wait_until

OFTEN_S = 0.002
ASKERS = 4
MAX_RESTARTS = 5


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    return fresh_module_cluster("single-worker")


def impatient_api(cluster: Cluster) -> KubeApi:
    """A user to whom roles apply, and who pauses so little that some requests come before the server knows the roles."""
    client = open_transport(user_agent=f"{AGENT}early", kubeconfig=str(cluster.service_account("early")))
    return KubeApi(client, sleep=lambda _seconds: time.sleep(OFTEN_S))


def restart(cluster: Cluster) -> None:
    cluster.kill("kube-apiserver")
    cluster.start("kube-apiserver")


def denied(cluster: Cluster, since: int) -> int:
    return sum(event.code == 403 for event in requests_seen(cluster, since, user_agent=f"{AGENT}early"))


class Askers:
    """Threads that list the nodes again and again; ``errors`` are what they got instead."""

    def __init__(self, cluster: Cluster) -> None:
        self.errors: list[Exception] = []
        self._apis = [impatient_api(cluster) for _number in range(ASKERS)]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(api,)) for api in self._apis]

    def __enter__(self) -> Askers:
        for api in self._apis:
            api.list_all(NODES)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, api: KubeApi) -> None:
        try:
            while not self._over.is_set():
                api.list_all(NODES)
        except Exception as error:
            self.errors.append(error)


def test_requests_outlive_the_denials_of_a_server_that_has_just_started(cluster: Cluster) -> None:
    mark = cluster.audit().mark()
    with Askers(cluster) as askers:
        for _restart in range(MAX_RESTARTS):
            restart(cluster)
            if denied(cluster, mark):
                break
    assert denied(cluster, mark), "no request came early enough"
    assert askers.errors == []


def test_a_missing_role_is_reported_immediately(cluster: Cluster) -> None:
    kubeconfig = cluster.service_account("nobody", cluster_role=None)
    client = open_transport(user_agent=f"{AGENT}nobody", kubeconfig=str(kubeconfig))
    mark = cluster.audit().mark()
    with pytest.raises(ForbiddenError, match="Grant the verb 'list' on pods"):
        KubeApi(client).list_all(PODS)
    assert [event.code for event in requests_seen(cluster, mark, user_agent=f"{AGENT}nobody")] == [403]


def test_a_role_that_is_removed_is_reported_after_a_while(cluster: Cluster) -> None:
    api = impatient_api(cluster)
    api.list_all(PODS)
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/lab:default:early:cluster-admin"
    cluster.api.request("DELETE", path)
    try:
        wait_until(lambda: is_denied(api), timeout_s=60, what="the denial")
        assert is_denied(api)
    finally:
        cluster.service_account("early")


def is_denied(api: KubeApi) -> bool:
    try:
        api.list_all(PODS)
    except ForbiddenError as error:
        return not error.early
    return False
