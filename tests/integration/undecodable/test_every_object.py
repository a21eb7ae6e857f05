# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of every kind that is read, made by the API server's own OpenAPI documents, and objects that no server would write.

OBJECT_CASES sets how many (3,000; 100,000 under SOAK=1), OBJECT_SEED the first seed. Each case has a seed of its own, which a failure
names: OBJECT_CASES=1 with that seed gives it again.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.pod_store import PodStore
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.store import ADDED, DELETED, MODIFIED, Store
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ResponseDecodeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import undecodable_of

from lab.cluster import Cluster
from tests.integration.rescue.scene import Scene
from tests.integration.undecodable.admissible import Admissible
from tests.integration.undecodable.consumers import decide_beside
from tests.integration.undecodable.openapi import READ, Maker, Schemas, without_nulls
from tests.integration.workloads import wait_until

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("OBJECT_CASES", "100000" if SOAK else "3000"))
SEED = int(os.environ.get("OBJECT_SEED", str(time.time_ns() % 10**9) if SOAK else "7070"))
DECIDED_EVERY = 10
"""In one of so many cases the modules' decisions are made on a cluster that has the object."""
ASKED = max(20, CASES // 4)
"""So many objects the API server is asked to admit, by dry runs."""
CREATED = max(5, CASES // 50)
"""So many of those that it admits are created and read back."""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def schemas(cluster: Cluster) -> Schemas:
    return Schemas(cluster.api)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def neighbour(resource: Resource, name: str) -> Json:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1", **({"namespace": "app"} if resource.namespaced else {})}}


def names_of(resource: Resource, parts: list[bytes]) -> list[str]:
    """The names of the decodable objects of a page of these parts."""
    page = b'{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}' % (
        resource.kind.encode(),
        b",".join(parts),
    )
    return [item.metadata.name for item in resource.decode_items(page) if undecodable_of(item) is None]


def assert_null_is_absent(resource: Resource, value: Json) -> None:
    read, expected = resource.read(dumped(value)), resource.read(dumped(without_nulls(value)))
    assert undecodable_of(read) is None, f"{read} of {value}"
    # Some volumes are kept as plain values, of which nobody reads more than whether they are there.
    assert without_nulls(json.loads(encode_json(read))) == json.loads(encode_json(expected)), value
    assert names_of(resource, [dumped(neighbour(resource, "one")), dumped(value), dumped(neighbour(resource, "two"))]) == [
        "one",
        "odd",
        "two",
    ]


def assert_it_affects_only_itself(resource: Resource, data: bytes) -> Any:
    """Whatever the text is: read by itself, in a list, and in a watch. Returns what it is read as."""
    read = resource.read(data)
    one, two = (dumped(neighbour(resource, name)) for name in ("one", "two"))
    try:
        names = names_of(resource, [one, data, two])
    except ResponseDecodeError:
        with pytest.raises(json.JSONDecodeError):  # only a page that is no JSON is refused as a whole
            json.loads(f"[{data.decode('utf-8', 'replace')}]", parse_int=str)
    else:
        if is_one_json_value(data):
            assert (names[0], names[-1]) == ("one", "two") and len(names) <= 3, names
    store: Store = PodStore() if resource == PODS else Store(resource)
    store.apply(ADDED, store.decode_event(dumped({**neighbour(resource, "odd"), "metadata": {**neighbour(resource, "odd")["metadata"]}})))
    store.apply(MODIFIED, store.decode_event(data))
    store.apply(DELETED, store.decode_event(data))
    return read


def is_one_json_value(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8", "replace"), parse_int=str)
    except (json.JSONDecodeError, RecursionError, ValueError):
        return False
    return True


def test_objects_of_every_kind_are_read_whatever_is_null_and_others_affect_only_themselves(
    schemas: Schemas, record_property: pytest.Function
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEED, SEED + CASES):
        maker = Maker(schemas, seed)
        resource = READ[seed % len(READ)]
        value = maker.object(resource)
        try:
            assert_null_is_absent(resource, value)
            counts["valid"] += 1
            change = maker.random.random()
            if change < 0.3:
                data = maker.mutated(dumped(value))
            elif change < 0.6:
                data = dumped(maker.misfit(value))
            else:
                data = dumped(value)
            read = assert_it_affects_only_itself(resource, data)
            counts["undecodable"] += undecodable_of(read) is not None
            if seed % DECIDED_EVERY == 0:
                decide_beside(resource, read, maker.random)
                counts["decided"] += 1
        except BaseException as error:
            error.add_note(f"OBJECT_SEED={seed} OBJECT_CASES=1: {resource.kind}")
            raise
    record_property("summary", f"objects: {dict(counts)}, seeds {SEED} to {SEED + CASES - 1}")
    assert CASES < 1000 or counts["undecodable"] > CASES // 20


def test_what_the_server_admits_with_null_or_empty_fields_is_read(
    cluster: Cluster, scene: Scene, schemas: Schemas, record_property: pytest.Function
) -> None:
    api = KubeApi(open_transport(user_agent="undecodable", kubeconfig=str(cluster.kubeconfig)))
    admissible = Admissible(cluster.api, schemas, scene.namespace)
    cache = ClusterInformer(api)
    cache.start()
    counts: Counter[str] = Counter()
    try:
        for seed in range(SEED, SEED + ASKED):
            try:
                counts.update(_ask(api, admissible, seed, create=counts["created"] < CREATED))
            except BaseException as error:
                error.add_note(f"OBJECT_SEED={seed} OBJECT_CASES=1")
                raise
        wait_until(lambda: cache.has_synced, what="the watches")
        assert (cache.errors, cache.undecodable, cache.snapshot().undecodable) == ({}, (), ())
    finally:
        cache.stop()
    record_property("summary", f"objects at the API server: {dict(counts)}, seeds {SEED} to {SEED + ASKED - 1}")
    assert CASES < 1000 or (counts["admitted"] > ASKED // 5 and counts["with null"] > 0 and counts["created"] == CREATED)


def _ask(api: KubeApi, admissible: Admissible, seed: int, *, create: bool) -> Counter[str]:
    resource = READ[seed % len(READ)]
    case = admissible.case(resource, seed)
    answer = admissible.create(case, dry_run=True)
    if answer.status != 201:
        return Counter(refused=1)
    assert undecodable_of(resource.read(answer.body)) is None, answer.body
    counts = Counter({"admitted": 1, "with null": b":null" in answer.body})
    if not create or admissible.create(case, dry_run=False).status != 201:
        return counts
    try:
        undecodable: list[Any] = []
        found = api.list_all(resource, namespace=case.namespace, undecodable=undecodable)
        assert undecodable == [] and case.name in {item.metadata.name for item in found}
    finally:
        admissible.delete(case)
    return counts + Counter(created=1)
