# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Taints, tolerations and cordons."""

from __future__ import annotations

import typing as t

import pytest

from tests.unit.support.cluster import codes
from tests.unit.support.objects import node, pod

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
NUMBER = {"key": "tier", "value": "5", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "rejected"),
    [
        (TAINT, None, True),
        ({**TAINT, "effect": "NoExecute"}, None, True),
        ({**TAINT, "effect": "PreferNoSchedule"}, None, False),
        (TAINT, {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}, False),
        (TAINT, {"key": "dedicated", "value": "db"}, False),
        (TAINT, {"key": "dedicated", "operator": "Equal", "value": "web"}, True),
        (TAINT, {"key": "dedicated", "operator": "Exists"}, False),
        (TAINT, {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, True),
        (TAINT, {"key": "other", "operator": "Exists"}, True),
        (TAINT, {"operator": "Exists"}, False),
        (TAINT, {"operator": "Exists", "effect": "NoExecute"}, True),
        (TAINT, {"key": "dedicated", "operator": "Exist"}, True),
        (NUMBER, {"key": "tier", "operator": "Lt", "value": "6"}, False),
        (NUMBER, {"key": "tier", "operator": "Lt", "value": "5"}, True),
        (NUMBER, {"key": "tier", "operator": "Gt", "value": "4"}, False),
        (NUMBER, {"key": "tier", "operator": "Gt", "value": "5"}, True),
        (NUMBER, {"key": "tier", "operator": "Gt", "value": "-1"}, False),
        (NUMBER, {"key": "tier", "operator": "Gt", "value": "04"}, True),
        (NUMBER, {"key": "tier", "operator": "Gt", "value": "+4"}, True),
        (NUMBER, {"key": "tier", "operator": "Lt", "value": "99999999999999999999"}, True),
        ({**NUMBER, "value": "05"}, {"key": "tier", "operator": "Gt", "value": "4"}, True),
        (TAINT, {"key": "dedicated", "operator": "Gt", "value": "4"}, True),
    ],
)
def test_a_taint_closes_a_node_unless_a_toleration_is_for_it(
    taint: dict[str, str], toleration: dict[str, str] | None, rejected: bool
) -> None:
    tolerations = [toleration] if toleration else None
    assert codes(pod(tolerations=tolerations), node(taints=[taint])) == (["untolerated_taint"] if rejected else [])


def test_every_closing_taint_needs_a_toleration() -> None:
    tainted = node(taints=[TAINT, NUMBER])
    assert codes(pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]), tainted) == ["untolerated_taint"]
    assert codes(pod(tolerations=[{"key": key, "operator": "Exists"} for key in ("dedicated", "tier")]), tainted) == []


@pytest.mark.parametrize(
    ("toleration", "rejected"),
    [
        (None, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, False),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"operator": "Exists"}, False),
    ],
)
def test_a_cordon_closes_a_node_unless_its_taint_is_tolerated(toleration: dict[str, t.Any] | None, rejected: bool) -> None:
    tolerations = [toleration] if toleration else None
    assert codes(pod(tolerations=tolerations), node(cordoned=True)) == (["node_unschedulable"] if rejected else [])


def test_the_cordon_is_named_before_its_taint() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert codes(pod(), node(cordoned=True, taints=[taint])) == ["node_unschedulable"]
