# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that forgets, that has too much to do, whose etcd does not answer, and that ends in good order."""

from __future__ import annotations

import http.client
import itertools
import json
import signal
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import OverloadedError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES as NODES_RESOURCE

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from tests.integration.faults.crowd import IN_FIRST_PAGE
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction, is_restart
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.requests_seen import is_watched, requests_seen
from tests.integration.wire import wire
from tests.integration.workloads import deployment, identity, known_outcome, pile_up, pod_uids, pods_of, wait_until

ROLLED, EVENED = "rolled", "evened"
STRATEGY = {ROLLED: "rollout", EVENED: "evict_surplus"}
NODES = "/api/v1/nodes"
UNCHANGED_S = 2

_NUMBERS = itertools.count(1)


@pytest.fixture
def cluster(impatient: Cluster) -> Cluster:
    return impatient


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return new_namespace(cluster)


def new_namespace(cluster: Cluster) -> str:
    name = f"trouble-{next(_NUMBERS)}"
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {"kube-scheduling.onprem/spread": "allow"}}}
    )
    cluster.wait_namespace(name)
    return name


class Moves:
    """Two piled-up Deployments: a module restarts the one, another one evicts from the other."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, namespace: str) -> None:
        self.webs = {name: deployment(namespace, name, 2) for name in STRATEGY}
        self._cluster = cluster
        self._modules = Modules(kubeconfig)
        pile_up(cluster, *self.webs.values())
        self._old = {name: pod_uids(cluster, web) for name, web in self.webs.items()}
        self.mark = cluster.audit().mark()

    def start(self) -> None:
        self._processes = {
            name: self._modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy=STRATEGY[name])
            for name, web in self.webs.items()
        }

    def requests(self, **wanted: Any) -> list[AuditEvent]:
        return requests_seen(self._cluster, self.mark, **wanted)

    def assert_made_once(self) -> None:
        """All pods of the one Deployment are new, in its second revision, and one of the other; both are spread."""
        for name, kept, revisions in ((ROLLED, 0, 2), (EVENED, 1, 1)):
            (line,) = result_of(self._processes[name])["workloads"]
            assert (line["action"], line["outcome"]) == ("restarted" if name == ROLLED else "evicted", "improved"), line
            web = self.webs[name]
            path = f"/apis/apps/v1/namespaces/{web['metadata']['namespace']}/replicasets?labelSelector=app%3D{name}"
            assert len(self._cluster.get(path)["items"]) == revisions
            pods = pods_of(self._cluster, web)
            assert len({pod["metadata"]["uid"] for pod in pods} & self._old[name]) == kept
            assert len(pods) == len({pod["spec"]["nodeName"] for pod in pods}) == 2
            outcome = known_outcome(self._cluster, web)
            assert (outcome["outcome"], outcome["attempts"]) == ("improved", 0)


def test_a_continue_token_that_expires_starts_the_list_again(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    mark = cluster.audit().mark()
    with wire(cluster, tmp_path, hold_after_bytes=IN_FIRST_PAGE, user=User(cluster).kubeconfig) as (line, kubeconfig):
        process = Modules(kubeconfig).start("k8s_spread_check", namespaces=[namespace])
        wait_until(line.held.is_set, what="the first page")
        # A write, so that the first page's version is no longer the newest.
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "namespace": namespace}})
        cluster.compact()
        line.release()
        result = result_of(process)
    lists = requests_seen(cluster, mark, verb="list", resource="pods")
    assert [(event.code, "continue=" in event.path) for event in lists] == [(200, False), (410, True), (200, False), (200, True)]
    (web,) = result["workloads"]
    assert (web["verdict"], web["placed"], web["restart_helps"]) == ("collapsed", 2, True), result


# --- too many requests ------------------------------------------------------------------------------------------------


class User:
    """A service account; other than the administrator it is not exempt from limits."""

    def __init__(self, cluster: Cluster) -> None:
        self.kubeconfig = cluster.service_account("user")
        token = yaml.safe_load(self.kubeconfig.read_text())["users"][0]["user"]["token"]
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._address = cluster.server.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))

    def connection(self) -> Callable[..., tuple[int, bool]]:
        """Something that sends requests, and returns the status and whether the answer says when to come again."""
        connection = http.client.HTTPSConnection(self._address, context=self._tls)

        def request(method: str, path: str, body: str | None = None) -> tuple[int, bool]:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, "Retry-After" in answer.headers

        return request

    def list_nodes(self, times: int) -> Counter[tuple[int, bool]]:
        request = self.connection()
        return Counter(request("GET", NODES) for _ in range(times))


class Crowders:
    """Users whose requests take so long that they keep the API server's seats: the variant has two of them.

    The more requests are refused, the longer are the pauses that the API server asks for: refused ones pause for ``pause_s``.
    """

    def __init__(self, cluster: Cluster, namespace: str, *, users: int, in_flight_s: float, pause_s: float) -> None:
        self.codes: Counter[int] = Counter()
        self._user = User(cluster)
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
        self._body = json.dumps(deployment(namespace, "wish"))
        self._in_flight_s, self._pause_s = in_flight_s, pause_s
        self._over = threading.Event()
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
        request, pause_s = self._user.connection(), 0.0
        while not self._over.wait(pause_s):
            code, _retry_after = request("POST", self._path, self._body)
            self.codes[code] += 1
            pause_s = self._pause_s if code == http.client.TOO_MANY_REQUESTS else 0.0


def test_an_overloaded_server_is_outlived(cluster: Cluster, namespace: str) -> None:
    moves = Moves(cluster, User(cluster).kubeconfig, namespace)
    crowded = new_namespace(cluster)
    crowders = Crowders(cluster, crowded, users=4, in_flight_s=0.8, pause_s=0.6)

    def refused() -> list[AuditEvent]:
        return [event for event in moves.requests(user="system:serviceaccount:default:user") if event.code == 429]

    with admission_webhook(cluster, "dawdle", crowded, crowders.decide):
        with crowders:
            moves.start()
            wait_until(lambda: len(refused()) >= 4, what="requests of the modules that are refused")
        moves.assert_made_once()
    assert set(crowders.codes) == {201, 429}


def test_one_request_at_a_time_is_never_refused(cluster: Cluster) -> None:
    assert User(cluster).list_nodes(60) == {(200, False): 60}


def test_the_administrator_is_exempt(cluster: Cluster) -> None:
    api = cluster.api
    with ThreadPoolExecutor(8) as pool:
        codes = set(pool.map(lambda _: api.request("GET", NODES).status, range(80)))
    assert codes == {200}


# From here on the API server asks for longer and longer pauses.


def test_parallel_requests_meet_429_with_retry_after(cluster: Cluster) -> None:
    user, mark = User(cluster), cluster.audit().mark()
    with ThreadPoolExecutor(16) as pool:
        seen = sum(pool.map(user.list_nodes, [60] * 16), Counter())
    assert set(seen) == {(429, True), (200, False)}
    refused = [event for event in cluster.audit().events(since=mark, resource="nodes", verb="list") if event.code == 429]
    assert len(refused) == seen[429, True]


def test_a_server_that_stays_overloaded_is_named_as_such(cluster: Cluster, namespace: str) -> None:
    crowders = Crowders(cluster, namespace, users=8, in_flight_s=2.0, pause_s=0.02)
    api = KubeApi(open_transport(user_agent="test", kubeconfig=str(User(cluster).kubeconfig)), retry_for_s=1.5)
    with admission_webhook(cluster, "dawdle", namespace, crowders.decide), crowders, pytest.raises(OverloadedError) as caught:
        wait_until(lambda: not api.list_all(NODES_RESOURCE))  # some of the first lists may still be answered
    assert str(caught.value).startswith("cannot list nodes: ") and "overloaded" in str(caught.value)


# --- etcd, and the end ------------------------------------------------------------------------------------------------


class Pauses:
    """Pauses etcd while the restart, and while the eviction, are in flight, until the API server has given up on them."""

    def __init__(self, cluster: Cluster, moves: Moves) -> None:
        self._cluster = cluster
        self._moves = moves
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()
        self._left = {ROLLED, EVENED}

    def decide(self, review: Review) -> None:
        name = review["name"].partition("-")[0]
        with self._lock:
            if name in self._left and (is_restart(review) or is_eviction(review)):
                self._cluster.pause("etcd")
                self._in_flight.add(name)

    def wait_until_over(self) -> None:
        try:
            wait_until(self._all_given_up, timeout_s=60, what="the writes that the API server gives up on")
        finally:
            self._cluster.resume("etcd")

    def _all_given_up(self) -> bool:
        events = self._moves.requests()
        wrote = {ROLLED: "patch", EVENED: "create"}
        with self._lock:
            if self._in_flight and all(any(is_given_up(event, wrote[name], name) for event in events) for name in self._in_flight):
                self._cluster.resume("etcd")
                self._left -= self._in_flight
                self._in_flight.clear()
            return not self._left


def is_given_up(event: AuditEvent, verb: str, name: str = "") -> bool:
    return event.verb == verb and event.name.partition("-")[0] == name and event.code in (500, 504)


def unlimited(cluster: Cluster) -> Path:
    """A user to whom roles apply and limits do not: writes in flight would take up the few seats of any other user."""
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "unlimited", "namespace": "default"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    cluster.apply(
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": "unlimited"},
            "spec": {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "exempt"}, "rules": [rule]},
        }
    )
    return cluster.service_account("unlimited")


def test_etcd_does_not_answer_and_then_the_server_closes_the_watches_and_ends(cluster: Cluster, namespace: str) -> None:
    moves = Moves(cluster, unlimited(cluster), namespace)
    pauses = Pauses(cluster, moves)
    with admission_webhook(cluster, "pause", namespace, pauses.decide):
        # No new pod becomes ready, so that there is something to wait for.
        cluster.pause("kwok-controller")
        cluster.pause("etcd")
        moves.start()
        try:
            wait_until(lambda: sum(is_given_up(event, "list") for event in moves.requests()) >= 2, what="lists that are given up")
        finally:
            cluster.resume("etcd")
        pauses.wait_until_over()
        for name in STRATEGY:
            wait_until(lambda name=name: is_watched(cluster, moves.mark, name), what=f"the watch of {name}")
        cluster.kill("kube-apiserver", signal=signal.SIGTERM)
        closed = [event.code for event in moves.requests(verb="watch", stages=(COMPLETE,))]
        # A module may watch again before the server has ended, and the server may end before it has written the last event.
        assert set(closed) == {200}, "the watches were not closed in good order"
        cluster.start("kube-apiserver")
        # To an API server that has just started, the versions of objects that have not changed since are too old for a watch.
        mark = cluster.audit().mark()
        time.sleep(UNCHANGED_S)
        asked = requests_seen(cluster, mark, stages=(STARTED, COMPLETE))
        assert len(asked) < 10 * len(STRATEGY) * UNCHANGED_S, "the modules ask without a pause"
        cluster.resume("kwok-controller")
        moves.assert_made_once()


def test_server_without_match_label_keys_stores_a_spread_constraint_without_them_with_a_warning(cluster: Cluster, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    done = Modules(cluster.service_account("user")).restart(**identity(web), spread_constraint="add")
    (entry,) = done["workloads"]
    assert (entry["action"], entry["outcome"]) == ("restarted", "improved")
    assert [set(one) for one in entry["spread_constraints"]] == [{"maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector"}] * 2
    assert str(done["warnings"]).count("matchLabelKeys, which need Kubernetes 1.27") == 2, done["warnings"]
