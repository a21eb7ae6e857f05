# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A store shows the state after lists and watch events, and keeps the same Python object for an unchanged part."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache import pod_store
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache import store as store_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.pod_store import PodStore
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.store import ADDED, DELETED, MODIFIED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import JOBS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import UndecodablePod

from tests.unit.support.objects import Json, running_json


def document(name: str, node: str = "", *, owner: str = "rs", version: str = "1", deleted: str | None = None, **labels: str) -> Json:
    metadata = {"resourceVersion": version, **({"deletionTimestamp": deleted} if deleted else {})}
    volumes = [{"name": "token", "projected": {}}]
    status = {"phase": "Running"}
    return running_json(node, name=name, owner=owner, owner_uid=owner, labels=labels, metadata=metadata, status=status, volumes=volumes)


def unschedulable(name: str, since: str, *, reason: str = "Unschedulable") -> Json:
    value = document(name)
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": since}
    return {**value, "status": {"phase": "Pending", "conditions": [condition]}}


class Filled(PodStore):
    """A store that takes what the API would send."""

    def list(self, *pods: Json) -> bool:
        self.note_list_start()
        return self.take_list(*pods)

    def take_list(self, *pods: Json) -> bool:
        return self.replace(self.decode_page(json.dumps({"items": pods}).encode()))

    def see(self, change: str, value: Json) -> bool:
        return self.apply(change, self.decode_event(json.dumps(value).encode()))

    def check(self) -> None:
        """The groups are those of the pods."""
        for groups, key in (
            (self.by_node, lambda p: p.spec.node_name),
            (self.by_owner, lambda p: (p.metadata.namespace, p.metadata.controller.uid)),
        ):
            expected: dict[str, set[str]] = {}
            for item in self.items():
                expected.setdefault(key(item), set()).add(item.metadata.name)
            assert {name: {p.metadata.name for p in group} for name, group in groups.lists.items()} == expected
            assert all(any(p is item for item in self.items()) for group in groups.lists.values() for p in group)


def names(pods: t.Iterable[t.Any]) -> list[str]:
    return sorted(item.metadata.name for item in pods)


def test_pods_come_move_and_go() -> None:
    store = Filled()
    assert store.list(document("a", "n1"), document("b", "n1"), document("c"))
    store.check()
    assert store.see(MODIFIED, document("c", "n1", version="2"))
    store.check()
    assert names(store.by_node.lists["n1"]) == ["a", "b", "c"]
    assert store.see(ADDED, document("d", "n2", owner="other"))
    assert store.see(DELETED, document("a", "n1", version="3"))
    store.check()
    assert store.see(DELETED, document("d", "n2", version="3"))
    assert "n2" not in store.by_node.lists and "other" not in {uid for _namespace, uid in store.by_owner.lists}
    assert not store.see(DELETED, document("d", "n2", version="3"))
    store.check()


def test_lists_that_were_handed_out_do_not_change() -> None:
    store = Filled()
    store.list(document("a", "n1"), document("b", "n2"))
    n1, n2 = store.by_node.lists["n1"], store.by_node.lists["n2"]
    store.see(ADDED, document("c", "n1"))
    assert names(n1) == ["a"] and store.by_node.lists["n2"] is n2


def test_a_write_that_the_structs_do_not_show_changes_only_the_resource_version() -> None:
    store = Filled()
    store.list(document("a", "n1"))
    (before,), version = store.items(), store.version
    assert not store.see(MODIFIED, {**document("a", "n1", version="9"), "irrelevant": True})
    assert store.version == version and store.items()[0] is before
    assert before.metadata.resource_version == "9"
    assert store.see(MODIFIED, document("a", "n1", version="10", app="web"))
    assert before.metadata.resource_version == "9", "what was handed out does not claim to be newer than it is"


def test_a_new_list_keeps_what_is_the_same() -> None:
    store = Filled()
    store.list(document("a", "n1"), document("b", "n2"), document("c", "n2"))
    before, n1, version = {item.metadata.name: item for item in store.items()}, store.by_node.lists["n1"], store.version
    assert not store.list(document("c", "n2", version="7"), document("b", "n2"), document("a", "n1")), "only in another order"
    assert store.version == version
    assert store.list(document("a", "n1"), document("b", "n2", version="8", app="web"))
    after = {item.metadata.name: item for item in store.items()}
    assert after["a"] is before["a"] and after["b"] is not before["b"] and "c" not in after
    assert store.by_node.lists["n1"] is n1
    store.check()


def test_since_when_a_pod_is_unschedulable() -> None:
    store = Filled()
    store.list(
        document("a", "n1"),
        unschedulable("b", "2026-01-01T00:00:05Z"),
        unschedulable("g", "2026-01-01T00:00:06Z", reason="SchedulingGated"),
    )
    assert store.unschedulable_since("uid-b") == "2026-01-01T00:00:05Z"
    assert store.unschedulable_since("uid-g") == store.unschedulable_since("uid-a") == store.unschedulable_since("none") == ""
    store.see(ADDED, unschedulable("c", "2026-01-01T00:00:07Z"))
    assert store.unschedulable_since("uid-c") == "2026-01-01T00:00:07Z"
    store.see(MODIFIED, document("c", "n1", version="2"))
    assert store.unschedulable_since("uid-c") == "", "bound"
    store.list(document("b", "n1", version="3"))
    assert store.unschedulable_since("uid-b") == "", "bound, seen in a list"
    store.see(ADDED, unschedulable("d", "2026-01-01T00:00:08Z"))
    store.see(DELETED, unschedulable("d", "2026-01-01T00:00:08Z"))
    assert store.unschedulable_since("uid-d") == ""


def shown(store: PodStore, name: str) -> str | None:
    (found,) = (item for item in store.items() if item.metadata.name == name)
    return t.cast("str | None", found.metadata.deletion_timestamp)


def test_a_pod_that_leaves_is_shown_so_until_the_watch_says_more() -> None:
    store = Filled()
    store.list(document("a", "n1"), document("b", "n1"))
    (before,) = (item for item in store.items() if item.metadata.name == "a")
    assert store.assume_terminating("uid-a", deletion_timestamp="T1")
    assert shown(store, "a") == "T1" and not before.terminating
    assert not store.assume_terminating("uid-a", deletion_timestamp="T2") and not store.assume_terminating("none", deletion_timestamp="T1")
    assert store.see(MODIFIED, document("a", "n1", version="2", app="web"))
    assert shown(store, "a") == "T1", "written before the eviction, seen after it"
    store.check()
    assert store.see(MODIFIED, document("a", "n1", version="3", deleted="T3"))
    assert shown(store, "a") == "T3"
    store.assume_terminating("uid-b", deletion_timestamp="T1")
    assert store.see(DELETED, document("b", "n1"))
    assert names(store.items()) == ["a"]
    store.check()


def test_list_that_began_after_an_assumption_replaces_it() -> None:
    store = Filled()
    store.list(document("a", "n1"), document("b", "n1"))
    store.note_list_start()
    store.assume_terminating("uid-a", deletion_timestamp="T1")
    store.take_list(document("a", "n1", version="2"), document("b", "n1"))
    assert shown(store, "a") == "T1", "begun before"
    store.list(document("a", "n1", version="2"), document("b", "n1"))
    assert shown(store, "a") is None
    store.check()


def test_an_assumption_that_nothing_confirms_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Filled()
    store.list(document("a", "n1"))
    store.assume_terminating("uid-a", deletion_timestamp="T1")
    store.see(MODIFIED, document("a", "n1", version="2", app="web"))
    assert not store.expire_assumptions() and shown(store, "a") == "T1"
    monkeypatch.setattr(pod_store, "ASSUMED_FOR_S", -1.0)
    assert store.expire_assumptions() and shown(store, "a") is None
    assert store.items()[0].metadata.labels == {"app": "web"}, "as the API server has said last"
    assert not store.expire_assumptions()
    store.check()


def test_parts_of_pods_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LEAST_PARTS", 50)
    store = Filled()
    store._most_parts = 50
    store.list(document("kept", "n1", app="kept"))
    sizes = []
    for number in range(1000):
        name = f"pod-{number}"
        store.see(ADDED, document(name, "n1", owner=name, app=name))
        store.see(DELETED, document(name, "n1", owner=name, app=name))
        sizes.append(store._interner.size)
    assert max(sizes) <= 60
    store.see(ADDED, document("twin", "n1", app="kept"))
    kept, twin = store.items()
    assert kept.metadata.labels is twin.metadata.labels, "what is in use is still shared"


# --- objects that cannot be decoded ---


def odd(value: Json, version: str = "2") -> Json:
    """The pod with containers that cannot be decoded."""
    return {**value, "metadata": {**value["metadata"], "resourceVersion": version}, "spec": {**value["spec"], "containers": 5}}


def test_undecodable_version_of_a_pod_replaces_the_good_one_until_the_next_good_one() -> None:
    store = Filled()
    store.list(document("a", "n1"), document("b", "n1"))
    assert store.see(MODIFIED, odd(document("a", "n1")))
    first = next(item for item in store.items() if item.metadata.name == "a")
    assert isinstance(first, UndecodablePod) and [one.name for one in store.undecodable] == ["Pod app/a"]
    assert len(store.by_node.lists["n1"]) == 2
    store.check()
    assert store.see(MODIFIED, document("a", "n2", version="3"))
    assert store.undecodable == () and not any(isinstance(item, UndecodablePod) for item in store.items())
    store.check()


@pytest.mark.parametrize("last", [odd(document("a", "n1"), "3"), document("a", "n1", version="3")], ids=["undecodable", "decodable"])
def test_deleted_pod_is_gone_whether_or_not_its_last_version_can_be_decoded(last: Json) -> None:
    store = Filled()
    store.list(odd(document("a", "n1")), document("b", "n1"))
    assert len(store.undecodable) == 1
    assert store.see(DELETED, last)
    assert store.undecodable == () and [item.metadata.name for item in store.items()] == ["b"]
    store.check()


def test_list_with_an_undecodable_pod_shows_it_and_the_same_list_shows_nothing_new() -> None:
    store = Filled()
    assert store.list(odd(document("a", "n1")), document("b", "n1"))
    version = store.version
    assert not store.list(odd(document("a", "n1")), document("b", "n1")) and store.version == version
    assert store.list(document("a", "n1"), document("b", "n1")) and store.undecodable == ()


def test_undecodable_object_that_is_no_pod_leaves_its_store_until_it_can_be_decoded() -> None:
    store = store_module.Store(JOBS)
    good, bad = ({"metadata": {"name": "j", "uid": "j", "resourceVersion": v}, "spec": spec} for v, spec in (("1", {}), ("2", 5)))
    for value, shown in ((good, 1), (bad, 0), (good, 1), (bad, 0)):
        assert store.apply(MODIFIED, store.decode_event(json.dumps(value).encode()))
        assert (len(store.items()), len(store.undecodable)) == (shown, 1 - shown)
    assert store.apply(DELETED, store.decode_event(json.dumps(good).encode())) and store.undecodable == ()


def test_condition_times_of_one_pod_that_cannot_be_read_leave_those_of_the_others() -> None:
    store = Filled()
    broken = unschedulable("broken", "2026-01-31T08:15:00Z")
    broken["status"]["conditions"][0]["lastTransitionTime"] = 5
    store.list(broken, unschedulable("b", "2026-01-31T08:15:00Z"))
    assert (store.unschedulable_since("uid-broken"), store.unschedulable_since("uid-b")) == ("", "2026-01-31T08:15:00Z")
