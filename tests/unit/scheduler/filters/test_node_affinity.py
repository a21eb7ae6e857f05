# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Node names, node selectors and required node affinity."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import NodeSelectorTerm
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.node_selector import term_matches

from tests.unit.support.cluster import codes, feasibility_of
from tests.unit.support.objects import node, node_affinity, pod

LABELS = {"zone": "a", "cores": "16", "note": "", "release": "1.2"}
TALL = "n" * 60 + ".rack-1.example.com"


def expression(key: str, operator: str, *values: str) -> dict[str, t.Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("note", "In", ""), True),
        (expression("missing", "In", ""), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("missing", "NotIn", "a"), True),
        (expression("note", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("note", "DoesNotExist"), False),
        (expression("cores", "Gt", "15"), True),
        (expression("cores", "Gt", "16"), False),
        (expression("cores", "Lt", "17"), True),
        (expression("cores", "Lt", "0016"), False),
        (expression("cores", "Gt", "0015"), True),
        (expression("release", "Gt", "1"), False),
        (expression("release", "Lt", "2"), False),
        (expression("missing", "Lt", "2"), False),
        (expression("cores", "Gt", "many"), False),
        (expression("cores", "Gt", "99999999999999999999"), False),
        (expression("cores", "Lt", "99999999999999999999"), False),
        (expression("cores", "Gt", "1", "2"), False),
        (expression("zone", "In"), False),
        (expression("zone", "NotIn"), False),
        (expression("zone", "Exists", "a"), False),
        (expression("zone", "NotIn", "not a label value"), False),
        (expression("zone", "NotIn", "v" * 64), False),
        (expression("zone", "Matches", "a"), False),
    ],
)
def test_an_expression_holds_or_not(requirement: dict[str, t.Any], holds: bool) -> None:
    affinity = node_affinity({"matchExpressions": [requirement]})
    assert codes(pod(affinity=affinity), node(labels=LABELS)) == ([] if holds else ["node_affinity"])


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        ({"matchFields": [expression("metadata.name", "In", "node-1")]}, True),
        ({"matchFields": [expression("metadata.name", "In", "node-2")]}, False),
        ({"matchFields": [expression("metadata.name", "NotIn", "node-2")]}, True),
        ({"matchFields": [expression("metadata.name", "NotIn", "node-1")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "node-1", "node-2")]}, False),
        ({"matchFields": [expression("metadata.name", "Exists")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "node-1")], "matchExpressions": [expression("zone", "In", "b")]}, False),
        ({"matchFields": [expression("metadata.name", "NotIn", TALL)]}, True),
        ({"matchExpressions": [expression("zone", "In", "a"), expression("cores", "Gt", "20")]}, False),
        ({}, False),
    ],
)
def test_a_term_holds_when_all_of_it_does(term: dict[str, t.Any], holds: bool) -> None:
    assert term_matches(decode_json(NodeSelectorTerm, encode_json(term)), node(labels=LABELS)) is holds


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        (
            {
                "affinity": node_affinity(
                    {"matchExpressions": [expression("zone", "In", "b")]}, {"matchExpressions": [expression("note", "Exists")]}
                )
            },
            True,
        ),
        ({"affinity": node_affinity({}, {})}, False),
        ({"affinity": node_affinity()}, False),
        ({"affinity": {"nodeAffinity": {}}}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "a", "cores": "8"}}, False),
        ({"nodeSelector": {"missing": ""}}, False),
        ({"nodeSelector": {"zone": "a"}, "affinity": node_affinity({"matchExpressions": [expression("zone", "In", "b")]})}, False),
    ],
)
def test_selector_and_one_term_must_hold(spec: dict[str, t.Any], holds: bool) -> None:
    assert codes(pod(**spec), node(labels=LABELS)) == ([] if holds else ["node_affinity"])


def test_nodes_left_out_by_name_are_not_asked_for_anything_else() -> None:
    affinity = node_affinity({"matchFields": [expression("metadata.name", "In", "node-1")]})
    found = feasibility_of(pod(affinity=affinity), [node("node-1", cordoned=True), node("node-2", cordoned=True)])
    assert {name: [reason.text for reason in reasons] for name, reasons in found.rejected.items()} == {
        "node-1": ["node(s) were unschedulable"],
        "node-2": ["node(s) didn't satisfy plugin(s) [NodeAffinity]"],
    }


def test_a_term_without_a_name_leaves_the_choice_to_the_labels() -> None:
    named = {"matchFields": [expression("metadata.name", "In", "node-1")]}
    affinity = node_affinity(named, {"matchExpressions": [expression("zone", "In", "a")]})
    found = feasibility_of(pod(affinity=affinity), [node("node-1"), node("node-2", labels=LABELS), node("node-3")])
    assert found.feasible == ("node-1", "node-2")
    assert found.rejected["node-3"][0].text == "node(s) didn't match Pod's node affinity/selector"


def test_terms_that_name_two_nodes_each_conflict() -> None:
    both = {"matchFields": [expression("metadata.name", "In", "node-1"), expression("metadata.name", "In", "node-2")]}
    found = feasibility_of(pod(affinity=node_affinity(both)), [node("node-1"), node("node-2")])
    assert [(reason.code, count) for reason, count in found.counts()] == [("node_affinity_conflict", 2)]


@pytest.mark.parametrize(("name", "expected"), [("node-1", []), ("node-2", ["node_name"])])
def test_a_pod_that_names_its_node_takes_no_other(name: str, expected: list[str]) -> None:
    assert codes(pod(on=name), node()) == expected
