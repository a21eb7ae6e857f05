# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts in a ConfigMap that does not exist, that several programs write, that a user edits, or whose answers are lost."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, InvalidError, NotFoundError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta, OwnerReference
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import (
    AttemptRecord,
    VictimRecord,
    attempt_key,
    record_failure,
    start,
)

from lab.cluster import Cluster
from tests.integration.state.entries import Entries
from tests.integration.wire import wire
from tests.integration.workloads import wait_until

_NUMBERS = itertools.count(1)


def key(owner: str) -> str:
    reference = OwnerReference(kind="ReplicaSet", name="dns", uid=owner, controller=True)
    return attempt_key(Pod(metadata=ObjectMeta(namespace="kube-system", name="dns", uid="u", owner_references=(reference,))))


OWNER = key("owner")


@pytest.fixture
def name() -> str:
    return f"attempts-{next(_NUMBERS)}"


def data_of(cluster: Cluster, namespace: str, name: str) -> dict[str, str] | None:
    found = cluster.api.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return None if found is None else found.get("data", {})


def begin(api: KubeApi, entry: AttemptRecord | None, *, pod_uid: str = "p") -> AttemptRecord:
    return start(entry, now_s=api.now_s(), pod_uid=pod_uid, name="kube-system/dns")


def test_they_outlive_the_program(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    attempts = Entries(api, name=name, namespace=namespace)
    assert attempts.read() == {} and data_of(cluster, namespace, name) is None, "reading makes nothing"
    assert attempts.update(OWNER, lambda entry: None) is None and data_of(cluster, namespace, name) is None
    first = attempts.update(OWNER, functools.partial(begin, api))
    assert first is not None and list(first.under_way) == ["p"]
    again = Entries(api, name=name, namespace=namespace)
    assert again.read() == {OWNER: first}
    ended = again.update(OWNER, lambda entry: record_failure(entry, now_s=api.now_s(), pod_uid="p", name="kube-system/dns"))
    second = again.update(OWNER, functools.partial(begin, api, pod_uid="q"))
    assert ended is not None and ended.attempts == 1 and second is not None and (second.attempts, list(second.under_way)) == (1, ["q"])
    assert again.update(OWNER, lambda entry: None) is None
    assert again.read() == {} and data_of(cluster, namespace, name) == {}


def test_several_writers_lose_nothing(api: KubeApi, namespace: str, name: str) -> None:
    gate = threading.Barrier(4)

    def write(owner: str) -> None:
        attempts = Entries(api, name=name, namespace=namespace)
        gate.wait()
        for pod in range(3):
            attempts.update(key(owner), functools.partial(begin, api, pod_uid=f"{owner}-{pod}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["one", "two", "three", "four"]))
    found = Entries(api, name=name, namespace=namespace).read()
    assert {owner: len(entry.under_way) for owner, entry in found.items()} == dict.fromkeys(map(key, ("one", "two", "three", "four")), 3)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"data": None},
        {"data": {OWNER: "", "other": "}{", "a.key": "[1]", "third": "\u0000\u202e"}},
        {"data": {OWNER: '{"attempts":-1,"time":"","pod":"","name":"","result":"failed"}'}},
        {"data": {OWNER: '{"attempts":1e99,"time":"2026-01-01T00:00:00Z","pod":"","name":"","result":"failed"}'}},
        {"data": None, "binaryData": {"owner2": "/w=="}},
    ],
)
def test_what_was_edited_into_nonsense_is_cleared_away(
    cluster: Cluster, api: KubeApi, namespace: str, name: str, nonsense: dict[str, Any]
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, **nonsense}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
    attempts = Entries(api, name=name, namespace=namespace)
    assert attempts.read() == {}
    written = attempts.update(OWNER, functools.partial(begin, api))
    assert attempts.read() == {OWNER: written}
    assert set(data_of(cluster, namespace, name) or ()) == {OWNER}


def test_what_cannot_be_written_says_why(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "immutable": True}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
    with pytest.raises(InvalidError, match="immutable"):
        Entries(api, name=name, namespace=namespace).update(OWNER, functools.partial(begin, api))
    with pytest.raises(NotFoundError):
        Entries(api, name=name, namespace="not-there").update(OWNER, functools.partial(begin, api))
    mere = KubeApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(cluster.service_account("no-maps", cluster_role=None))))
    with pytest.raises(ForbiddenError):
        Entries(mere, name=name, namespace=namespace).read()


@pytest.mark.parametrize("exists", [False, True])
def test_a_write_whose_answer_is_lost_counts_once(
    cluster: Cluster, user: Path, api: KubeApi, namespace: str, name: str, tmp_path: Path, exists: bool
) -> None:
    if exists:
        Entries(api, name=name, namespace=namespace).update(key("another"), functools.partial(begin, api))
    with wire(cluster, tmp_path, user=user) as (line, kubeconfig):
        broken = KubeApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(kubeconfig)))
        asked: list[AttemptRecord | None] = []

        def change(entry: AttemptRecord | None) -> AttemptRecord:
            asked.append(entry)
            if len(asked) == 1:
                line.hold()
            return record_failure(entry, now_s=api.now_s(), pod_uid="p", name="n")

        def lose() -> None:
            wait_until(lambda: OWNER in (data_of(cluster, namespace, name) or {}))
            line.held.wait(10)
            line.cut()

        threading.Thread(target=lose, daemon=True).start()
        written = Entries(broken, name=name, namespace=namespace).update(OWNER, change)
    assert written is not None and written.attempts == 1 and asked == [None]
    assert Entries(api, name=name, namespace=namespace).read()[OWNER] == written


class DeletingApi(KubeApi):
    """The real API server. The ConfigMap is deleted between each of the first reads and the write that follows."""

    deletions = 2

    def get(self, resource: Any, namespace: str, name: str) -> Any:
        found = super().get(resource, namespace, name)
        if self.deletions:
            self.deletions -= 1
            self.lab.api.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return found

    lab: Cluster


def test_config_map_that_is_deleted_between_read_and_write_is_made_again(
    cluster: Cluster, user: Path, api: KubeApi, namespace: str, name: str
) -> None:
    deleting = DeletingApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(user)))
    deleting.lab = cluster
    Entries(api, name=name, namespace=namespace).update(key("another"), functools.partial(begin, api))
    written = Entries(deleting, name=name, namespace=namespace).update(OWNER, functools.partial(begin, api))
    assert deleting.deletions < 2 and Entries(api, name=name, namespace=namespace).read() == {OWNER: written}


def test_full_config_map_drops_the_oldest_attempts_and_names_them(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    """The API server refuses a ConfigMap of more than 1 MiB."""
    attempts = Entries(api, name=name, namespace=namespace)
    record = VictimRecord("n" * 63, "p" * 253, "u" * 36, "m" * 253, 0, 10, "lower_priority", "x" * 200)
    for number in range(20):

        def change(entry: AttemptRecord | None, number: int = number) -> AttemptRecord:
            return start(entry, now_s=api.now_s(), pod_uid="p", name=f"a/{number}", victims=[record] * 50)

        assert attempts.update(key(str(number)), change) is not None
    found = attempts.read()
    assert key("19") in found and 5 < len(found) < 20
    named = {name for text in attempts.errors for name in re.findall(r"a/[0-9]+", text)}
    assert named == {f"a/{number}" for number in range(20)} - {entry.name for entry in found.values()}
