# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A hold is proven by a record, or by a taint whose value is the hash of its pod."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.held_nodes import HeldNodes, held_nodes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import HOLD_ANNOTATION, Hold, HoldRecord, make_hold

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import node, pending, running

KEY = "CriticalAddonsOnly"
POD = pending(name="dns")
HOLD = make_hold(POD, key=KEY, deadline_s=2e9, writer="w")
NOMINATION = make_hold(POD, key="", deadline_s=2e9, writer="w")


def held_node(annotation: Hold | str | None = None, taint: dict[str, str] | None = None, *, uid: str = "uid-n") -> Node:
    """The node n with this annotation of a hold and this taint."""
    text = encode_json(annotation).decode() if isinstance(annotation, Hold) else annotation
    return node("n", uid=uid, annotations={HOLD_ANNOTATION: text} if text is not None else None, taints=[taint] if taint else [])


def look(the_node: Node, record: Hold | None = None, pods: t.Sequence[t.Any] = (POD,), **options: t.Any) -> HeldNodes:
    records = {"n": HoldRecord("n", "uid-n", record)} if record is not None else {}
    return held_nodes(snapshot_of(nodes=[the_node], pods=pods), records, RescueOptions(**options))


def taint(hold: Hold = HOLD, **other: str) -> dict[str, str]:
    return {"key": hold.key, "value": hold.value, "effect": "NoSchedule", **other}


@pytest.mark.parametrize("annotation", [HOLD, NOMINATION, None, "nonsense", replace(HOLD, uid="other", deadline="2020-01-01T00:00:00Z")])
@pytest.mark.parametrize("recorded", [HOLD, NOMINATION])
def test_a_record_proves_a_hold_whatever_the_annotation_says(annotation: Hold | str | None, recorded: Hold) -> None:
    assert look(held_node(annotation, taint()), recorded) == HeldNodes({"n": recorded}, [], [])
    assert look(held_node(annotation), recorded) == HeldNodes({"n": recorded}, [], [])


@pytest.mark.parametrize("name", ["n", ""])
def test_the_record_of_a_node_that_cannot_be_decoded_is_a_hold(name: str) -> None:
    unreadable = Undecodable(kind="Node", metadata=ObjectMeta(name=name), message="spec")
    snapshot = snapshot_of(undecodable=[unreadable])
    assert held_nodes(snapshot, {"n": HoldRecord("n", "uid-n", HOLD)}, RescueOptions()) == HeldNodes({"n": HOLD}, [], [])


def test_the_record_of_a_node_that_is_gone_is_obsolete() -> None:
    record = HoldRecord("n", "uid-n", HOLD)
    assert held_nodes(snapshot_of(), {"n": record}, RescueOptions()) == HeldNodes({}, [], [record])


@pytest.mark.parametrize(
    ("annotation", "on_node"),
    [
        ("nonsense", None),
        (NOMINATION, None),
        (HOLD, None),
        (HOLD, taint(value="true")),
        (HOLD, taint(effect="NoExecute")),
        (HOLD, taint(key="example.com/other")),
        (replace(HOLD, value="true"), taint(value="true")),
        (replace(HOLD, key="example.com/other"), taint(key="example.com/other")),
        (replace(HOLD, value="0123456789abcdef"), taint(value="0123456789abcdef")),
    ],
)
def test_an_annotation_alone_proves_nothing(annotation: Hold | str, on_node: dict[str, str] | None) -> None:
    assert look(held_node(annotation, on_node)) == HeldNodes({}, ["n"], [])


def test_a_taint_with_the_hash_of_the_annotated_pod_proves_the_annotation() -> None:
    assert look(held_node(HOLD, taint()), pods=()) == HeldNodes({"n": HOLD}, [], [])


@pytest.mark.parametrize("annotation", [None, "nonsense", replace(HOLD, pod="other")])
def test_a_taint_with_the_hash_of_a_critical_pod_is_a_hold_that_is_over(annotation: Hold | str | None) -> None:
    found = look(held_node(annotation, taint()))
    assert found.unproven == [] and (found.holds["n"].taint, found.holds["n"].uid) == (HOLD.taint, HOLD.uid)
    assert found.holds["n"].has_expired(1.0)


@pytest.mark.parametrize("pods", [(), (pending(name="other"),), (running("n", name="dns", namespace="kube-system", priority=0),)])
def test_a_taint_of_no_critical_pod_is_foreign(pods: tuple[t.Any, ...]) -> None:
    assert look(held_node(None, taint()), pods=pods) == HeldNodes({}, [], [])


def test_a_taint_with_another_key_is_foreign() -> None:
    assert look(held_node(HOLD, taint()), hold_taint_key="example.com/held") == HeldNodes({}, ["n"], [])


def test_the_record_of_an_earlier_node_of_the_same_name_is_obsolete() -> None:
    found = look(held_node(uid="newer"), HOLD)
    assert found.holds == {} and [record.node for record in found.obsolete] == ["n"]
