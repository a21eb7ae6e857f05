# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts in a ConfigMap that is not there, is written by several at once, is edited by hand, or whose answers are lost."""

from __future__ import annotations

import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.attempts import RescueAttempts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import connect
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.errors import ForbiddenError, InvalidError, NotFoundError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.memory.attempts import Attempt, begun, failed

from lab.cluster import Cluster
from tests.integration.wire import wire
from tests.integration.workloads import wait_until

_NUMBERS = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"attempts-{next(_NUMBERS)}"


def data_of(cluster: Cluster, namespace: str, name: str) -> dict[str, str] | None:
    found = cluster.api.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return None if found is None else found.get("data", {})


def begin(api: KubeApi, entry: Attempt | None, *, pod_uid: str = "p") -> Attempt:
    return begun(entry, now_s=api.now_s(), pod_uid=pod_uid, name="kube-system/dns")


def test_they_outlive_the_program(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    attempts = RescueAttempts(api, name=name, namespace=namespace)
    assert attempts.read() == {} and data_of(cluster, namespace, name) is None, "reading makes nothing"
    assert attempts.update("owner", lambda entry: None) is None and data_of(cluster, namespace, name) is None
    first = attempts.update("owner", functools.partial(begin, api))
    assert first is not None and list(first.under_way) == ["p"]
    again = RescueAttempts(api, name=name, namespace=namespace)
    assert again.read() == {"owner": first}
    ended = again.update("owner", lambda entry: failed(entry, now_s=api.now_s(), pod_uid="p", name="kube-system/dns"))
    second = again.update("owner", functools.partial(begin, api, pod_uid="q"))
    assert ended is not None and ended.attempts == 1 and second is not None and (second.attempts, list(second.under_way)) == (1, ["q"])
    assert again.update("owner", lambda entry: None) is None
    assert again.read() == {} and data_of(cluster, namespace, name) == {}


def test_several_writers_lose_nothing(api: KubeApi, namespace: str, name: str) -> None:
    gate = threading.Barrier(4)

    def write(owner: str) -> None:
        attempts = RescueAttempts(api, name=name, namespace=namespace)
        gate.wait()
        for pod in range(3):
            attempts.update(owner, functools.partial(begin, api, pod_uid=f"{owner}-{pod}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["one", "two", "three", "four"]))
    found = RescueAttempts(api, name=name, namespace=namespace).read()
    assert {owner: len(entry.under_way) for owner, entry in found.items()} == dict.fromkeys(("one", "two", "three", "four"), 3)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"data": None},
        {"data": {"owner": "", "other": "}{", "a.key": "[1]", "third": "\u0000\u202e"}},
        {"data": {"owner": '{"attempts":-1,"time":"","pod":"","name":"","result":"failed"}'}},
        {"data": {"owner": '{"attempts":1e99,"time":"2026-01-01T00:00:00Z","pod":"","name":"","result":"failed"}'}},
        {"data": None, "binaryData": {"owner2": "/w=="}},
    ],
)
def test_what_was_edited_into_nonsense_is_cleared_away(
    cluster: Cluster, api: KubeApi, namespace: str, name: str, nonsense: dict[str, Any]
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, **nonsense}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
    attempts = RescueAttempts(api, name=name, namespace=namespace)
    assert attempts.read() == {}
    written = attempts.update("owner", functools.partial(begin, api))
    assert attempts.read() == {"owner": written}
    assert set(data_of(cluster, namespace, name) or ()) == {"owner"}


def test_what_cannot_be_written_says_why(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "immutable": True}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
    with pytest.raises(InvalidError, match="immutable"):
        RescueAttempts(api, name=name, namespace=namespace).update("owner", functools.partial(begin, api))
    with pytest.raises(NotFoundError):
        RescueAttempts(api, name=name, namespace="not-there").update("owner", functools.partial(begin, api))
    mere = KubeApi(connect(user_agent="onprem-rescue-tests", kubeconfig=str(cluster.service_account("no-maps", cluster_role=None))))
    with pytest.raises(ForbiddenError):
        RescueAttempts(mere, name=name, namespace=namespace).read()


@pytest.mark.parametrize("exists", [False, True])
def test_a_write_whose_answer_is_lost_counts_once(
    cluster: Cluster, api: KubeApi, namespace: str, name: str, tmp_path: Path, exists: bool
) -> None:
    if exists:
        RescueAttempts(api, name=name, namespace=namespace).update("another", functools.partial(begin, api))
    with wire(cluster, tmp_path) as (line, kubeconfig):
        broken = KubeApi(connect(user_agent="onprem-rescue-tests", kubeconfig=str(kubeconfig)))
        asked: list[Attempt | None] = []

        def change(entry: Attempt | None) -> Attempt:
            asked.append(entry)
            if len(asked) == 1:
                line.hold()
            return failed(entry, now_s=api.now_s(), pod_uid="p", name="n")

        def lose() -> None:
            wait_until(lambda: "owner" in (data_of(cluster, namespace, name) or {}))
            line.held.wait(10)
            line.cut()

        threading.Thread(target=lose, daemon=True).start()
        written = RescueAttempts(broken, name=name, namespace=namespace).update("owner", change)
    assert written is not None and written.attempts == 1 and asked == [None]
    assert RescueAttempts(api, name=name, namespace=namespace).read()["owner"] == written
