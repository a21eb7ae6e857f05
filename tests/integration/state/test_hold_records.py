# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of holds in a ConfigMap that several programs write at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.holds import (
    HoldStore,
    NodeTakenError,
    TooManyHoldsError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    MAX_HOLD_RECORDS,
    HoldRecord,
    hold_record_key,
    make_hold,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import attempt_key, start

from lab.cluster import Cluster
from tests.integration.state.entries import Entries

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kube-scheduling-rescue"


def record(node: str, pod: str, *, writer: str = "w") -> HoldRecord:
    made = decode_json(Pod, encode_json({"metadata": {"namespace": "kube-system", "name": pod, "uid": f"uid-{pod}"}}))
    return HoldRecord(node, f"uid-{node}", make_hold(made, key="CriticalAddonsOnly", deadline_s=2e9, writer=writer))


def key(pod: str) -> str:
    return attempt_key(Pod(metadata=ObjectMeta(namespace="kube-system", name=pod, uid=pod)))


def read(api: KubeApi) -> dict[str, HoldRecord]:
    records = HoldStore(api)
    records.read()
    return dict(records.records)


@pytest.fixture(autouse=True)
def no_records(cluster: Cluster) -> None:
    cluster.api.request("DELETE", CONFIG_MAP)


def test_several_writers_lose_nothing_and_one_node_gets_one_hold(api: KubeApi) -> None:
    """Attempts are written to the same ConfigMap meanwhile."""
    gate = threading.Barrier(4)

    def write(writer: str) -> int:
        records, attempts, taken = HoldStore(api), Entries(api), 0
        gate.wait()
        for number in range(2):
            records.put(record(f"{writer}-{number}", f"{writer}-{number}"))
            attempts.update(key(f"{writer}-{number}"), lambda entry: start(entry, now_s=api.now_s(), pod_uid="p", name="n"))
        try:
            records.put(record("contested", writer))
        except NodeTakenError:
            taken = 1
        return taken

    writers = ["one", "two", "three", "four"]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, writers)) == 3
    wanted = {f"{writer}-{number}" for writer in writers for number in range(2)}
    assert set(read(api)) == wanted | {"contested"} and set(Entries(api).read()) == set(map(key, wanted))


def test_only_the_record_that_is_there_is_removed(api: KubeApi) -> None:
    records = HoldStore(api)
    records.put(record("n", "dns"))
    records.put(record("n", "dns", writer="next"))
    records.remove([record("n", "dns")])
    assert read(api) == {"n": record("n", "dns", writer="next")}
    records.remove([record("n", "dns", writer="next"), record("gone", "x")])
    assert read(api) == {} and dict(records.records) == {}


def test_records_are_bounded(api: KubeApi, cluster: Cluster) -> None:
    data = {hold_record_key(f"n{number}"): record(f"n{number}", "dns").to_text() for number in range(MAX_HOLD_RECORDS)}
    body = {"metadata": {"namespace": "kube-system", "name": "kube-scheduling-rescue"}, "data": data}
    cluster.api.post(CONFIG_MAP.rpartition("/")[0], body)
    with pytest.raises(TooManyHoldsError, match=f"{MAX_HOLD_RECORDS} records of holds"):
        HoldStore(api).put(record("another", "dns"))
    HoldStore(api).put(record("n0", "dns", writer="next"))
    assert len(read(api)) == MAX_HOLD_RECORDS
