# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Holds: the fields that are written on a node, and exactly these fields are removed again."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, Taint
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    HOLD_ANNOTATION,
    Hold,
    decode_hold,
    held_for_another,
    hold_annotation,
    hold_patch,
    hold_value,
    is_foreign_taint,
    is_genuine,
    is_hold_on,
    make_hold,
    release_patch,
)

from tests.unit.support.objects import NOW, Json, node_json, pending

KEY = "CriticalAddonsOnly"
OTHER = {"key": "example.com/other", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
ADMINISTRATORS = {"key": KEY, "value": "true", "effect": "NoExecute"}


def dns(name: str = "dns", uid: str = "u-1") -> Pod:
    return pending(name=name, owner="coredns", metadata={"uid": uid})


def hold() -> Hold:
    return make_hold(dns(), key=KEY, deadline_s=NOW + 60, writer="host_1")


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
    held = applied(before, hold_patch(before, hold()))
    assert held["spec"]["taints"] == [*(before["spec"].get("taints") or []), {"key": KEY, "value": hold().value, "effect": "NoSchedule"}]
    assert decode_hold(hold_annotation(decode_json(Node, encode_json(held))) or "") == hold() and is_hold_on(held, hold())
    released = applied(held, release_patch(held, hold()))
    assert released["spec"] == before["spec"]
    assert released["metadata"].get("annotations") in (before["metadata"].get("annotations"), {})


def test_a_change_meanwhile_fails_the_patch() -> None:
    before = document([OTHER])
    operations = hold_patch(before, hold())
    for changed in (document([OTHER, ADMINISTRATORS]), document([]), document([OTHER], {HOLD_ANNOTATION: "somebody"})):
        with pytest.raises(AssertionError):
            applied(changed, operations)


def test_a_taint_that_was_removed_by_hand_leaves_only_the_annotation_to_remove() -> None:
    held = applied(document(), hold_patch(document(), hold()))
    held["spec"].pop("taints")
    assert applied(held, release_patch(held, hold()))["metadata"]["annotations"] == {}


def test_another_s_hold_is_not_removed() -> None:
    other = make_hold(dns(uid="u-2"), key=KEY, deadline_s=NOW, writer="host_2")
    held = applied(document(), hold_patch(document(), other))
    assert release_patch(held, hold()) == []
    assert release_patch(document(), hold()) == []
    assert held_for_another(held, hold()) == other and held_for_another(held, other) is None


@pytest.mark.parametrize("annotation", ["nonsense", encode_json(make_hold(dns(uid="u-2"), key=KEY, deadline_s=0, writer="x")).decode()])
def test_an_edited_annotation_is_removed_with_the_taint(annotation: str) -> None:
    held = applied(document([OTHER]), hold_patch(document([OTHER]), hold()))
    held["metadata"]["annotations"][HOLD_ANNOTATION] = annotation
    assert not is_hold_on(held, hold())
    released = applied(held, release_patch(held, hold()))
    assert released["spec"]["taints"] == [OTHER] and released["metadata"]["annotations"] == {}


def test_an_annotation_that_nothing_proves_gives_way_to_a_hold() -> None:
    """It names another pod, and its taint is not on the node."""
    forged = make_hold(dns(uid="u-2"), key=KEY, deadline_s=NOW, writer="kubelet")
    annotated = document([OTHER], {HOLD_ANNOTATION: encode_json(forged).decode()})
    assert held_for_another(annotated, hold()) is None
    assert is_hold_on(applied(annotated, hold_patch(annotated, hold())), hold())


def test_only_the_hash_of_its_pod_makes_a_hold_genuine() -> None:
    assert is_genuine(hold()) and is_genuine(make_hold(dns(), key="", deadline_s=NOW, writer="x"))
    for value in ("", "true", hold_value(dns(uid="u-2"))):
        assert not is_genuine(replace(hold(), value=value))
    assert not is_genuine(replace(hold(), key=""))


@pytest.mark.parametrize(
    "text", ["", "no json", "{}", '{"key": 1}', encode_json({"deadline": "yesterday"}).decode(), "[" * 250_000, '{"x":' * 50_000, "\x00"]
)
def test_an_edited_annotation_is_no_hold(text: str) -> None:
    assert decode_hold(text) is None


def test_the_value_is_short_and_of_the_pod_alone() -> None:
    long = dns("d" * 253)
    assert len(hold_value(long)) <= 63
    assert len({hold_value(dns()), hold_value(dns(uid="u-2")), hold_value(dns("other"))}) == 3


def test_deadlines() -> None:
    assert not hold().has_expired(NOW + 59) and hold().has_expired(NOW + 61)


def test_foreign_taints() -> None:
    mine = hold()
    assert not is_foreign_taint(mine.taint, KEY, mine)
    assert is_foreign_taint(mine.taint, KEY, None)
    assert is_foreign_taint(Taint(key=KEY, value="true", effect="NoSchedule"), KEY, mine)
    assert not is_foreign_taint(Taint(key=KEY, value="true", effect="NoExecute"), KEY, mine)
    assert not is_foreign_taint(Taint(key="other", value="true", effect="NoSchedule"), KEY, mine)
