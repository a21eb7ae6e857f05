# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Holds: the fields that are written on a node, and exactly these fields are removed again."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, Taint
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    HOLD_ANNOTATION,
    Hold,
    hash_of,
    hold_note,
    hold_on,
    hold_patch,
    holds_in,
    is_foreign_taint,
    read_hold,
    release_patch,
    taint_json,
)

from tests.unit.support.objects import NOW, Json, node_json, pending

KEY = "CriticalAddonsOnly"
OTHER = {"key": "example.com/other", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
ADMINISTRATORS = {"key": KEY, "value": "true", "effect": "NoExecute"}


def dns(name: str = "dns", uid: str = "u-1") -> Pod:
    return pending(name=name, owner="coredns", metadata={"uid": uid})


def hold(uid: str = "u-1", *, key: str = KEY, deadline_s: float = NOW + 60) -> Hold:
    return Hold(key, hash_of(dns(uid=uid)), int(deadline_s))


def document(taints: list[Json] | None = None, annotations: dict[str, str] | None = None) -> Json:
    return node_json("n", taints=taints, annotations=annotations)


def applied(before: Json, operations: list[Json]) -> Json:
    """RFC 6902, as far as it is used; a test that does not hold is an AssertionError."""
    result = copy.deepcopy(before)
    for operation in operations:
        *parents, last = (part.replace("~1", "/") for part in operation["path"].split("/")[1:])
        target = result
        for part in parents:
            target = target[part]
        if operation["op"] == "test":
            assert target.get(last) == operation["value"]
        elif operation["op"] == "add":
            target[last] = operation["value"]
        else:
            del target[last]
    return result


@pytest.mark.parametrize(
    "before",
    [
        document(),
        document(annotations={"other": "text"}),
        document([OTHER], {"other": "text"}),
        document([OTHER, ADMINISTRATORS]),
    ],
)
def test_a_hold_is_put_beside_everything_and_removed_alone(before: Json) -> None:
    held = applied(before, hold_patch(before, hold(), "a note"))
    assert held["spec"]["taints"] == [*(before["spec"].get("taints") or []), taint_json(hold().taint)]
    assert held["metadata"]["annotations"][HOLD_ANNOTATION] == "a note"
    assert [hold_on(decode_json(Node, encode_json(held)))] == holds_in(held) == [hold()]
    released = applied(held, release_patch(held, hold()))
    assert released["spec"] == before["spec"]
    assert released["metadata"].get("annotations") in (before["metadata"].get("annotations"), {})


def test_an_owner_with_a_long_name_makes_no_long_annotation() -> None:
    """The API limits all annotations of a node together."""
    pod = pending(owner="x" * 300_000)
    assert len(hold_note(pod, hold(), writer="w", since_s=NOW)) < 1000


def test_a_change_of_the_taints_meanwhile_fails_the_patch() -> None:
    before = document([OTHER])
    operations = hold_patch(before, hold(), "")
    for changed in (document([OTHER, ADMINISTRATORS]), document([])):
        with pytest.raises(AssertionError):
            applied(changed, operations)


def test_a_hold_replaces_an_older_one_with_any_key() -> None:
    before = document([OTHER, taint_json(hold(key="example.com/held", deadline_s=NOW).taint)])
    assert applied(before, hold_patch(before, hold(), ""))["spec"]["taints"] == [OTHER, taint_json(hold().taint)]


def test_a_taint_that_was_removed_by_hand_leaves_only_the_annotation_to_remove() -> None:
    held = applied(document(), hold_patch(document(), hold(), ""))
    held["spec"].pop("taints")
    assert applied(held, release_patch(held, hold()))["metadata"]["annotations"] == {}


@pytest.mark.parametrize("other", [hold("u-2"), hold(deadline_s=NOW), hold(key="example.com/held")])
def test_no_other_hold_is_removed(other: Hold) -> None:
    held = applied(document(), hold_patch(document(), other, ""))
    assert release_patch(held, hold()) == [] == release_patch(document(), hold())


def test_of_two_holds_with_different_keys_only_the_given_one_is_removed() -> None:
    other = hold("u-2", key="example.com/held")
    held = document([taint_json(other.taint), taint_json(hold().taint)], {HOLD_ANNOTATION: "a note"})
    released = applied(held, release_patch(held, hold()))
    assert holds_in(released) == [other] and HOLD_ANNOTATION in released["metadata"]["annotations"]
    assert holds_in(applied(released, release_patch(released, other))) == []


@pytest.mark.parametrize("annotations", [{}, {HOLD_ANNOTATION: "edited"}])
def test_an_edited_annotation_changes_nothing(annotations: dict[str, str]) -> None:
    held = document([OTHER, taint_json(hold().taint)], annotations)
    assert holds_in(held) == [hold()]
    released = applied(held, release_patch(held, hold()))
    assert released["spec"]["taints"] == [OTHER] and released["metadata"]["annotations"] == {}


@pytest.mark.parametrize(
    "taint",
    [
        {"value": ""},
        {"value": None},
        {"value": "true"},
        {"value": hash_of(dns())},
        {"value": f"rescue-{hash_of(dns())}"},
        {"value": f"rescue-{hash_of(dns())}-until-0123"},
        {"value": f"rescue-{hash_of(dns())}-until-12345678901"},
        {"value": f"rescue-{hash_of(dns())}-until-1.5"},
        {"value": f"rescue-{hash_of(dns()).upper()}-until-1"},
        {"effect": "NoExecute"},
        {"effect": "PreferNoSchedule"},
    ],
)
def test_any_other_taint_is_no_hold(taint: Json) -> None:
    assert holds_in(document([{**taint_json(hold().taint), **taint}])) == []


def test_the_value_is_a_label_value_and_different_for_each_pod() -> None:
    value = hold().taint.value
    assert value == f"rescue-{hash_of(dns())}-until-{int(NOW) + 60}" and len(value) <= 63
    assert len({hash_of(dns()), hash_of(dns(uid="u-2")), hash_of(dns("other")), hash_of(dns("d" * 253))}) == 4
    assert read_hold(hold().taint) == hold() and hold().is_for(dns()) and not hold().is_for(dns(uid="u-2"))


def test_the_annotation_names_pod_owner_times_and_program() -> None:
    assert json.loads(hold_note(dns(), hold(), writer="host_1", since_s=NOW)) == {
        "pod": "kube-system/dns",
        "owner": "ReplicaSet coredns",
        "since": "2026-01-01T00:00:00Z",
        "deadline": "2026-01-01T00:01:00Z",
        "writer": "host_1",
    }


def test_foreign_taints() -> None:
    assert not is_foreign_taint(hold().taint, KEY)
    assert is_foreign_taint(Taint(key=KEY, value="true", effect="NoSchedule"), KEY)
    assert not is_foreign_taint(Taint(key=KEY, value="true", effect="NoExecute"), KEY)
    assert not is_foreign_taint(Taint(key="other", value="true", effect="NoSchedule"), KEY)
