# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server whose etcd does not answer, whose memory is short, that has too much to do, or that ends in good order."""

from __future__ import annotations

import http.client
import itertools
import json
import signal
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import connect
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.errors import OverloadedError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.resources import NODES

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from tests.integration.faults.crowd import IN_FIRST_PAGE
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction, is_restart
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.wire import wire
from tests.integration.workloads import deployment, identity, known_outcome, pile_up, pod_uids, pods_of, restarted_at, wait_until

AGENT = "onprem.kube_scheduling/"
GIVEN_UP = (500, 504)
STRATEGIES = ("rollout", "evict_surplus")

_NUMBERS = itertools.count(1)


@pytest.fixture
def cluster(impatient: Cluster) -> Cluster:
    return impatient


@pytest.fixture
def modules(cluster: Cluster) -> Modules:
    return Modules(cluster.kubeconfig)


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return new_namespace(cluster)


def new_namespace(cluster: Cluster) -> str:
    name = f"trouble-{next(_NUMBERS)}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {"collectdeployments": "allow"}}})
    cluster.wait_namespace(name)
    return name


def asked(cluster: Cluster, mark: int, **wanted: Any) -> list[AuditEvent]:
    """What the modules asked since the mark, and what they were answered."""
    return list(cluster.audit().events(since=mark, **{"user_agent": AGENT, **wanted}))


def assert_moved_once(cluster: Cluster, web: dict[str, Any], old: set[str], line: dict[str, Any], strategy: str) -> None:
    """Of two replicas on one node, one was evicted, or both were restarted; never more."""
    assert (line["action"], line["verdict"]) == ("restarted" if strategy == "rollout" else "evicted", "improved"), line
    metadata = web["metadata"]
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/replicasets?labelSelector=app%3D{metadata['name']}"
    assert len(cluster.get(path)["items"]) == (2 if strategy == "rollout" else 1)
    assert len(pod_uids(cluster, web) & old) == (0 if strategy == "rollout" else 1)
    assert len({pod["spec"]["nodeName"] for pod in pods_of(cluster, web)}) == 2
    outcome = known_outcome(cluster, web)
    assert (outcome["verdict"], outcome["attempts"]) == ("improved", 0)


def test_a_continue_token_that_expires_starts_the_list_again(cluster: Cluster, modules: Modules, namespace: str, tmp_path: Path) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    mark = cluster.audit().mark()
    with wire(cluster, tmp_path, hold_after_bytes=IN_FIRST_PAGE) as (line, kubeconfig):
        process = Modules(kubeconfig).start("k8s_spread_check", namespaces=[namespace])
        wait_until(line.held.is_set, what="the first page")
        # A write, so that the first page's version is no longer the newest.
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "namespace": namespace}})
        cluster.compact()
        line.release()
        result = result_of(process)
    lists = asked(cluster, mark, verb="list", resource="pods")
    assert [(event.code, "continue=" in event.path) for event in lists] == [(200, False), (410, True), (200, False), (200, True)]
    (web,) = result["workloads"]
    assert (web["verdict"], web["placed"], web["restart_helps"]) == ("collapsed", 2, True), result


# --- etcd -------------------------------------------------------------------------------------------------------------


def resume_when(cluster: Cluster, seen: Callable[[], bool]) -> None:
    """Let etcd go on as soon as the API server has given up on a request."""
    try:
        wait_until(seen, what="a request that was given up")
    finally:
        cluster.resume("etcd")


def test_etcd_that_does_not_answer_during_a_list(cluster: Cluster, modules: Modules, namespace: str) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    mark = cluster.audit().mark()
    cluster.pause("etcd")
    process = modules.start("k8s_spread_check", namespaces=[namespace])
    resume_when(cluster, lambda: any(event.code in GIVEN_UP for event in asked(cluster, mark, verb="list")))
    result = result_of(process)
    assert [(web["verdict"], web["restart_helps"]) for web in result["workloads"]] == [("collapsed", True)], result


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_etcd_that_does_not_answer_during_a_write(cluster: Cluster, modules: Modules, namespace: str, strategy: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    old, mark, paused = pod_uids(cluster, web), cluster.audit().mark(), threading.Event()

    def pause_once(review: Review) -> None:
        if (is_restart(review) or is_eviction(review)) and not paused.is_set():
            cluster.pause("etcd")
            paused.set()

    with admission_webhook(cluster, f"pause-{namespace}", namespace, pause_once):
        process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy=strategy)
        assert paused.wait(30)
        verb = "patch" if strategy == "rollout" else "create"
        resume_when(cluster, lambda: any(event.code in GIVEN_UP for event in asked(cluster, mark, verb=verb)))
        line = result_of(process)["workloads"][0]
    assert_moved_once(cluster, web, old, line, strategy)


# --- too many requests ------------------------------------------------------------------------------------------------


class Crowders:
    """Users whose requests take so long that they keep the API server's seats: the flavour has two of them."""

    def __init__(self, cluster: Cluster, namespace: str, *, users: int, in_flight_s: float, between_s: float) -> None:
        kubeconfig = yaml.safe_load(cluster.service_account("crowder").read_text())
        token = kubeconfig["users"][0]["user"]["token"]
        self.codes: Counter[int] = Counter()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._address = cluster.server.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
        self._body = json.dumps(deployment(namespace, "wish"))
        self._over = threading.Event()
        self._in_flight_s, self._between_s = in_flight_s, between_s
        self._threads = [threading.Thread(target=self._press) for _number in range(users)]

    def decide(self, _review: Review) -> None:
        """The webhook that keeps them waiting."""
        time.sleep(self._in_flight_s)

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _press(self) -> None:
        connection = http.client.HTTPSConnection(self._address, context=self._tls)
        while not self._over.wait(self._between_s):
            connection.request("POST", self._path, self._body, self._headers)
            answer = connection.getresponse()
            answer.read()
            self.codes[answer.status] += 1


def test_an_overloaded_server_is_outlived(cluster: Cluster, namespace: str) -> None:
    webs = {strategy: deployment(namespace, strategy.partition("_")[0], 2) for strategy in STRATEGIES}
    pile_up(cluster, *webs.values())
    old = {strategy: pod_uids(cluster, web) for strategy, web in webs.items()}
    crowded = new_namespace(cluster)
    crowders = Crowders(cluster, crowded, users=3, in_flight_s=0.5, between_s=0.4)
    modules = Modules(cluster.service_account("user"))
    mark = cluster.audit().mark()
    with admission_webhook(cluster, "dawdle", crowded, crowders.decide), crowders:
        processes = {
            strategy: modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy=strategy) for strategy, web in webs.items()
        }
        lines = {strategy: result_of(process)["workloads"][0] for strategy, process in processes.items()}
    refused = [event for event in asked(cluster, mark) if event.code == 429]
    assert set(crowders.codes) == {201, 429} and refused, "the limits were not reached"
    assert {event.user for event in refused} == {"system:serviceaccount:default:user"}
    for strategy, web in webs.items():
        assert_moved_once(cluster, web, old[strategy], lines[strategy], strategy)


def test_a_server_that_stays_overloaded_is_named_as_such(cluster: Cluster, namespace: str) -> None:
    crowders = Crowders(cluster, namespace, users=8, in_flight_s=2.0, between_s=0.02)
    kubeconfig = cluster.service_account("user")
    api = KubeApi(connect(user_agent="test", kubeconfig=str(kubeconfig)), retry_for_s=1.5)
    with admission_webhook(cluster, "dawdle", namespace, crowders.decide), crowders, pytest.raises(OverloadedError) as caught:
        wait_until(lambda: not api.list_all(NODES))  # some of the first lists may still be answered
    assert str(caught.value).startswith("cannot list nodes: ") and "The API server is overloaded: try again later" in str(caught.value)


# --- a good end -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_pod_becomes_ready(cluster: Cluster) -> Iterator[None]:
    cluster.pause("kwok-controller")
    yield
    cluster.resume("kwok-controller")


def test_watches_that_the_server_closes_are_opened_again(
    cluster: Cluster, modules: Modules, namespace: str, request: pytest.FixtureRequest
) -> None:
    webs = {strategy: deployment(namespace, strategy.partition("_")[0], 2) for strategy in STRATEGIES}
    pile_up(cluster, *webs.values())
    old, mark = {strategy: pod_uids(cluster, web) for strategy, web in webs.items()}, cluster.audit().mark()
    request.getfixturevalue("no_pod_becomes_ready")
    processes = {
        strategy: modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy=strategy) for strategy, web in webs.items()
    }
    wait_until(lambda: len(asked(cluster, mark, verb="watch", stages=(STARTED,))) == 2, what="both watches")
    stamp = restarted_at(cluster, webs["rollout"])
    cluster.kill("kube-apiserver", signal=signal.SIGTERM)
    assert [event.code for event in asked(cluster, mark, verb="watch", stages=(COMPLETE,))] == [200, 200], "not closed in good order"
    cluster.start("kube-apiserver")
    cluster.resume("kwok-controller")
    for strategy, process in processes.items():
        assert_moved_once(cluster, webs[strategy], old[strategy], result_of(process)["workloads"][0], strategy)
    assert restarted_at(cluster, webs["rollout"]) == stamp
