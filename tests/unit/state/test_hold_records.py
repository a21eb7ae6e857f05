# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Records of holds: what is read of a ConfigMap that people may edit, and what is written to it."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta, OwnerReference
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    MAX_KEY_LENGTH,
    MAX_RECORD_BYTES,
    HoldRecord,
    has_space_for,
    hold_record_key,
    hold_record_patch,
    make_hold,
    read_hold_records,
    size_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import configmap_patch, read_attempts

from tests.unit.state.test_hold import KEY, NOW, dns


def record(node: str = "n", *, uid: str = "u-1", key: str = KEY, deadline_s: float = NOW) -> HoldRecord:
    return HoldRecord(node, f"uid-{node}", make_hold(dns(uid=uid), key=key, deadline_s=deadline_s, writer="w"))


def stored(*records: HoldRecord) -> dict[str, str]:
    return {hold_record_key(item.node): item.to_text() for item in records}


@pytest.mark.parametrize("node", ["n", "worker-1.example.com", "n" * 253])
def test_a_record_is_found_by_its_node(node: str) -> None:
    data = hold_record_patch(None, put=record(node))
    assert all(len(key) <= MAX_KEY_LENGTH for key in data)
    assert read_hold_records({k: v or "" for k, v in data.items()}) == {node: record(node)}


NONSENSE = [
    "",
    "null",
    "{}",
    record("other").to_text(),
    record().to_text().replace("2026", "soon"),
    record().to_text().replace(record().hold.value, "true"),
    record().to_text().replace(KEY, ""),
    record(key="").to_text().replace('"key":""', f'"key":"{KEY}"'),
]


@pytest.mark.parametrize("text", NONSENSE)
def test_a_record_that_a_user_edited_proves_nothing_and_is_removed(text: str) -> None:
    data = {"hold.n": text, **stored(record("good"))}
    assert list(read_hold_records(data)) == ["good"]
    assert hold_record_patch(data) == {"hold.n": None}


def test_only_what_changes_is_written() -> None:
    data = {**stored(record(), record("other")), "owner": "an attempt"}
    assert hold_record_patch(data, put=record()) == {}
    newer = replace(record(), hold=replace(record().hold, writer="another"))
    assert hold_record_patch(data, put=newer) == stored(newer)
    assert hold_record_patch(data, drop=[record()]) == {"hold.n": None}
    assert hold_record_patch(data, drop=[newer]) == {}, "another program has written it since"


def test_attempts_and_records_leave_each_other_alone() -> None:
    data = stored(record())
    assert read_attempts(data, now_s=NOW) == {} and configmap_patch(data, "attempt.x", None, now_s=NOW) == ({}, [])
    assert hold_record_patch({"owner": "an attempt"}, put=record()) == stored(record())


def test_records_with_the_longest_names_are_bounded_in_bytes() -> None:
    """A tenant chooses kind and name of the owner reference."""
    owner = OwnerReference(kind="\x01" * 100_000, name="x" * 100_000, uid="o", controller=True)
    metadata = ObjectMeta(namespace="n" * 63, name="p" * 253, uid="u" * 36, owner_references=(owner,))
    hold = make_hold(Pod(metadata=metadata), key="k" * 317, deadline_s=NOW, writer="w" * 253)
    data: dict[str, str] = {}
    while has_space_for(data, record := HoldRecord(f"{len(data):0253}", "u" * 36, hold)):
        data[hold_record_key(record.node)] = record.to_text()
    assert len(data) > 100 and sum(size_of(key, text) for key, text in data.items()) <= MAX_RECORD_BYTES
    assert has_space_for(data, read_hold_records(data)[f"{0:0253}"]), "the record of a node that has one can be written again"
