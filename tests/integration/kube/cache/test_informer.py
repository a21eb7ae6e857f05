# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache shows the state of the cluster while pods are created and deleted, the API server loses data, and permissions are missing."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache import informer, reflector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import CACHED_RESOURCES, ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import resources
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, KubeError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import resource_version_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import parse_time

from lab.cluster import Cluster
from tests.integration.requests_seen import requests_seen
from tests.integration.wire import wire
from tests.integration.workloads import IMAGE, budget, deployment, restart, wait_rolled_out, wait_until

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cache(api: KubeApi) -> Iterator[ClusterInformer]:
    cache = ClusterInformer(api)
    cache.start()
    yield cache
    cache.stop()


def pod(namespace: str, name: str, *, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def find(cache: ClusterInformer, namespace: str, name: str) -> Pod | None:
    found = (item for item in cache.snapshot().pods if (item.metadata.namespace, item.metadata.name) == (namespace, name))
    return next(found, None)


def wait_for(cache: ClusterInformer, namespace: str, name: str, condition: Callable[[Pod], bool] = lambda _pod: True) -> Pod:
    def fits() -> bool:
        found = find(cache, namespace, name)
        return found is not None and condition(found)

    wait_until(fits, what=f"pod {name} in the cache")
    found = find(cache, namespace, name)
    assert found is not None
    return found


def assert_as_read(cache: ClusterInformer, api: KubeApi, timeout_s: float = 120.0) -> None:
    """The cache shows what a fresh read shows, once it is quiet."""
    deadline_s = time.monotonic() + timeout_s
    while shown_otherwise := _differences(cache.snapshot(), read_snapshot(api, kinds=())):
        assert time.monotonic() < deadline_s, f"still after {timeout_s:.0f} s, shown and read: {shown_otherwise}; errors: {cache.errors}"
        time.sleep(0.1)


def _differences(shown: ClusterSnapshot, read: ClusterSnapshot) -> dict[str, Any]:
    """Return the objects that differ between the two snapshots, by kind."""
    views: dict[str, Callable[[ClusterSnapshot], dict[Any, Any]]] = {
        "pods": lambda snapshot: {item.metadata.uid: item for item in snapshot.pods},
        "nodes": lambda snapshot: snapshot.nodes,
        "namespaces": lambda snapshot: snapshot.namespaces,
        "budgets": lambda snapshot: snapshot.budgets_by_namespace,
        "pods by node": lambda snapshot: _names(snapshot.pods_by_node),
        "pods by owner": lambda snapshot: _names(snapshot.pods_by_owner),
        "skipped": lambda snapshot: dict(enumerate(snapshot.skipped)),
    }
    found = {}
    for kind, view in views.items():
        one, other = view(shown), view(read)
        apart = {name: (one.get(name), other.get(name)) for name in {**one, **other} if one.get(name) != other.get(name)}
        if apart:
            found[kind] = apart
    return found


def _names(groups: dict[str, list[Pod]]) -> dict[str, list[str]]:
    return {name: sorted(item.metadata.name for item in group) for name, group in groups.items()}


def test_it_shows_what_a_read_shows_while_pods_come_move_and_go(
    cluster: Cluster, api: KubeApi, cache: ClusterInformer, namespace: str
) -> None:
    assert_as_read(cache, api)
    web = deployment(namespace, "web", 8)
    cluster.apply([web, budget(namespace, "web", "web", minAvailable=1)])
    wait_rolled_out(cluster, web)
    assert_as_read(cache, api)
    restart(cluster, web)
    wait_rolled_out(cluster, web)
    assert_as_read(cache, api)
    cluster.kubectl("delete", "deployment/web", "pdb/web", "-n", namespace)
    wait_until(lambda: not [item for item in cache.snapshot().pods if item.metadata.namespace == namespace], what="no pod is left")
    assert_as_read(cache, api)
    assert cache.has_synced and cache.errors == {}


def test_what_has_not_changed_is_the_same_object(cluster: Cluster, cache: ClusterInformer, namespace: str) -> None:
    cluster.apply([pod(namespace, "one", nodeName="worker-1"), pod(namespace, "two", nodeName="worker-2")])
    for name in ("one", "two"):
        wait_for(cache, namespace, name, lambda found: found.ready)
    before = cache.snapshot()
    cluster.apply(pod(namespace, "three", nodeName="worker-1"))
    wait_for(cache, namespace, "three")
    after = cache.snapshot()
    assert after.pods_by_node["worker-2"] is before.pods_by_node["worker-2"]
    assert after.pods_by_node["worker-1"] is not before.pods_by_node["worker-1"]
    assert "three" not in _names(before.pods_by_node)["worker-1"], "a snapshot does not change"
    assert after.nodes is before.nodes and after.storage is before.storage


def test_waiting_ends_with_a_change_and_not_with_a_heartbeat(cluster: Cluster, api: KubeApi) -> None:
    cache = ClusterInformer(api, (resources.NODES,))
    cache.start()
    version = cache.version
    (condition, *others) = cluster.get("/api/v1/nodes/worker-1")["status"]["conditions"]
    beat = {"status": {"conditions": [{**condition, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}, *others]}}
    written = cluster.api.merge_patch("/api/v1/nodes/worker-1/status", beat)["metadata"]["resourceVersion"]
    wait_until(lambda: cache.snapshot().nodes["worker-1"].metadata.resource_version == written, what="the heartbeat in the cache")
    assert cache.wait_for_change(version, 0.0) == version

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.wait_for_change, version, 600.0)
        cluster.cordon("worker-1")
        try:
            assert waiting.result(120) > version, "it ends long before its own time"
        finally:
            cluster.uncordon("worker-1")
            cache.stop()


def test_since_when_a_pod_is_unschedulable(cluster: Cluster, user: Path, cache: ClusterInformer, namespace: str) -> None:
    cluster.apply(pod(namespace, "huge", cpu="100"))
    found = wait_for(cache, namespace, "huge", lambda found: bool(found.status.conditions))
    status = cluster.get(f"/api/v1/namespaces/{namespace}/pods/huge")["status"]
    assert cache.unschedulable_since(found.metadata.uid) == parse_time(status["conditions"][0]["lastTransitionTime"])

    late = ClusterInformer(KubeApi(open_transport(user_agent="onprem-kube-tests", kubeconfig=str(user))))
    late.start()
    assert late.unschedulable_since(found.metadata.uid) == cache.unschedulable_since(found.metadata.uid), "from the first list as well"
    late.stop()

    cluster.kubectl("delete", "pod", "huge", "-n", namespace)
    wait_until(lambda: find(cache, namespace, "huge") is None)
    assert cache.unschedulable_since(found.metadata.uid) is None


def test_an_evicted_pod_leaves_immediately(cluster: Cluster, api: KubeApi, cache: ClusterInformer, namespace: str) -> None:
    cluster.apply(pod(namespace, "leaver", nodeName="worker-4", terminationGracePeriodSeconds=30))
    found = wait_for(cache, namespace, "leaver", lambda found: found.ready)
    with cache._changed:  # nothing gets through in between
        api.evict(namespace, "leaver", uid=found.metadata.uid, grace_period_s=3)
        cache.assume_terminating(found.metadata.uid)
        shown = find(cache, namespace, "leaver")
    assert shown is not None and shown.terminating and shown.metadata.deletion_grace_period_seconds is None
    seen = wait_for(cache, namespace, "leaver", lambda found: found.metadata.deletion_grace_period_seconds is not None)
    assert seen.metadata.deletion_grace_period_seconds == 3 and seen.terminating
    wait_until(lambda: find(cache, namespace, "leaver") is None)


def granted(cluster: Cluster, *, verbs: list[str], without: tuple[str, ...] = ()) -> tuple[str, KubeApi]:
    """A service account that may read what is followed but for ``without``, and the name of its role."""
    name = f"follower-{next(_NUMBERS)}"
    kubeconfig = cluster.service_account(name, cluster_role=None)
    plurals = [resource.plural for resource in CACHED_RESOURCES if resource.plural not in without]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": ["*"], "resources": plurals, "verbs": verbs}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    cluster.apply([role, binding])
    api = KubeApi(open_transport(user_agent="onprem-kube-tests", kubeconfig=str(kubeconfig)), retry_for_s=2)
    wait_until(lambda: _may(api, resources.STORAGE_CLASSES), what="the role in force")
    return name, api


def _may(api: KubeApi, resource: resources.Resource) -> bool:
    try:
        api.list_all(resource)
    except ForbiddenError:
        return False
    return True


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("follow ")]


def test_what_may_not_be_read_is_named_and_asked_for_again(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FORBIDDEN_PAUSE_S", 0.5)
    hidden = ("poddisruptionbudgets", "csinodes", "deviceclasses", "persistentvolumeclaims", "jobs")
    role, api = granted(cluster, verbs=["list", "watch"], without=hidden)
    cluster.apply(budget(namespace, "hidden", "hidden", minAvailable=1))
    cache = ClusterInformer(api)
    cache.start()
    snapshot = cache.snapshot()
    assert {entry.resource for entry in snapshot.skipped} == set(hidden)
    assert all("Grant the verb 'list'" in entry.reason and entry.namespace == "" for entry in snapshot.skipped)
    assert snapshot.storage is not None and {"csinodes", "persistentvolumeclaims"} <= snapshot.storage.unreadable
    assert snapshot.storage.claim_namespaces == frozenset() and snapshot.device_classes is None
    assert cache.has_synced and namespace not in snapshot.budgets_by_namespace

    cluster.kubectl("create", "clusterrolebinding", f"{role}-all", "--clusterrole=cluster-admin", f"--serviceaccount=default:{role}")
    wait_until(lambda: cache.snapshot().skipped == (), what="nothing to be skipped")
    assert namespace in cache.snapshot().budgets_by_namespace and cache.snapshot().device_classes == ()
    cache.stop()


@pytest.mark.parametrize("plural", ["nodes", "pods"])
def test_without_nodes_or_pods_nothing_starts(cluster: Cluster, plural: str) -> None:
    _role, api = granted(cluster, verbs=["list", "watch"], without=(plural,))
    before = threads()
    with pytest.raises(ForbiddenError, match=f"Grant the verb 'list' on {plural}"):
        ClusterInformer(api).start()
    assert threads() == before


def test_pods_that_may_not_be_read_any_more_show(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "POLL_S", 0.2)
    role, api = granted(cluster, verbs=["list"])
    cache = ClusterInformer(api)
    cache.start()
    cluster.kubectl("delete", "clusterrolebinding", role)

    def refused() -> bool:
        try:
            cache.snapshot()
        except ForbiddenError:
            return True
        return False

    wait_until(refused, what="the error")
    with pytest.raises(ForbiddenError):
        cache.wait_for_change(-1, 1)
    assert not cache.has_synced and set(cache.errors) & {"nodes", "pods"}
    cache.stop()


def test_what_may_be_listed_but_not_watched_is_listed_again(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "POLL_S", 0.2)
    _role, api = granted(cluster, verbs=["list"])
    cache = ClusterInformer(api)
    cache.start()
    cluster.apply(pod(namespace, "polled", nodeName="worker-5"))
    wait_for(cache, namespace, "polled")
    assert cache.has_synced
    cache.stop()


def test_an_api_server_that_cannot_be_reached_ends_the_start_in_time(cluster: Cluster, api: KubeApi) -> None:
    before = threads()
    cluster.pause("kube-apiserver")
    try:
        started = time.monotonic()
        with pytest.raises(UnreachableError):
            ClusterInformer(api).start(timeout_s=2)
        assert time.monotonic() - started < reflector.ANSWER_TIMEOUT_S, "the start waits for answers longer than it may"
    finally:
        cluster.resume("kube-apiserver")
    wait_until(lambda: len(threads()) <= len(before), timeout_s=60, what="the threads to end")


def test_a_thread_that_dies_shows(api: KubeApi, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ClusterInformer(api)
    cache.start()

    def fail(data: bytes) -> Any:
        raise RuntimeError("an error in this program")

    monkeypatch.setattr(cache._pods, "decode_event", fail)
    cluster.apply(pod(namespace, "fatal", nodeName="worker-6"))
    wait_until(lambda: "pods" in cache.errors, what="the end of the thread")
    with pytest.raises(KubeError, match="pods are not watched any more: RuntimeError: an error in this program"):
        cache.wait_for_change(cache.version, 0)
    with pytest.raises(KubeError, match="an error in this program"):
        cache.snapshot()
    assert not cache.has_synced and "pods" in cache.errors
    cache.stop()


def test_pods_that_a_killed_api_server_has_lost_are_removed_from_the_cache(
    cluster: Cluster, api: KubeApi, cache: ClusterInformer, namespace: str
) -> None:
    cluster.apply([pod(namespace, f"ghost-{number}", nodeName="worker-6") for number in range(3)])
    ghosts = [wait_for(cache, namespace, f"ghost-{number}", lambda found: found.ready) for number in range(3)]
    version = cache.version
    cluster.kill("kube-apiserver")
    try:
        wait_until(lambda: set(cache.errors) >= {"nodes", "pods"}, what="the lost connections to show")
        assert not cache.has_synced and cache.version > version
        assert {item.metadata.uid for item in ghosts} <= {item.metadata.uid for item in cache.snapshot().pods}, "the old state stays"
        # Without the API server, so that there is no watch event for it. The versions that the watches know do not exist any more either.
        cluster.bulk_unload("Pod", namespace)
        cluster.compact()
    finally:
        cluster.start("kube-apiserver")
    wait_until(lambda: cache.has_synced, what="the cache to be back")
    wait_until(lambda: find(cache, namespace, "ghost-0") is None, what="the ghosts to go")
    cluster.apply(pod(namespace, "alive", nodeName="worker-6"))
    wait_for(cache, namespace, "alive")
    assert_as_read(cache, api)


def test_watch_that_is_silent_for_longer_than_a_bookmark_takes_is_reported(
    cluster: Cluster, user: Path, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stays open without data and without an error, as with a firewall that drops packets."""
    monkeypatch.setattr(informer, "SILENT_AFTER_S", 3.0)
    with wire(cluster, tmp_path, user=user) as (line, kubeconfig):
        cache = ClusterInformer(KubeApi(open_transport(user_agent="onprem-kube-tests", kubeconfig=str(kubeconfig))), (resources.PODS,))
        cache.start()
        try:
            cluster.apply(pod(namespace, "heard"))
            wait_for(cache, namespace, "heard")
            assert "pods" not in cache.silent
            line.hold()
            cluster.apply(pod(namespace, "unheard"))
            wait_until(lambda: cache.silent.get("pods", 0.0) > 3.0, what="the silence")
            assert cache.has_synced and find(cache, namespace, "unheard") is None
            line.release()
            wait_for(cache, namespace, "unheard")
            assert "pods" not in cache.silent
        finally:
            cache.stop()


def test_quiet_watches_are_opened_again_without_an_error_and_do_not_count_as_silent(
    cluster: Cluster, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing happens to namespaces and storage, and the server sends no bookmark before there is a newer version."""
    silence_s, silent_after_s = 1.0, 10.0
    monkeypatch.setattr(reflector, "SILENCE_S", silence_s)
    monkeypatch.setattr(informer, "SILENT_AFTER_S", silent_after_s)
    cache = ClusterInformer(api)
    cache.start()
    mark = cluster.audit().mark()

    def asked() -> list[str]:
        events = requests_seen(cluster, mark, user_agent="onprem-kube-tests")
        return [event.verb for event in events if event.path.startswith("/api/v1/namespaces?")]

    def quiet_for_long() -> bool:
        assert cache.silent == {} and cache.errors == {} and cache.has_synced
        return asked().count("watch") > silent_after_s / silence_s + 1

    try:
        wait_until(quiet_for_long, what="watches that are opened again for longer than one may be silent")
    finally:
        cache.stop()
    assert "list" not in asked()


def test_stopping_ends_every_thread_and_watch(api: KubeApi) -> None:
    before = threads()
    cache = ClusterInformer(api)
    cache.start()
    assert len(threads()) == len(before) + len(CACHED_RESOURCES)
    started = time.monotonic()
    cache.stop()
    assert threads() == before and time.monotonic() - started < reflector.WATCH_S[0] / 4, "it has waited for the end of a watch"
    assert cache.snapshot().nodes


@pytest.mark.parametrize("resource", CACHED_RESOURCES, ids=lambda resource: resource.plural)
def test_bookmarks_of_every_resource_are_read(cluster: Cluster, resource: resources.Resource) -> None:
    """The server sends one a minute, and one immediately if the initial events are requested."""
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=10"
    bookmark = next(event["object"] for event in cluster.api.watch(f"{resource.path('')}?{query}") if event["type"] == "BOOKMARK")
    version = bookmark["metadata"]["resourceVersion"]
    assert version and resource_version_of(json.dumps(bookmark).encode()) == version
