# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Node selector and required node affinity (kubernetes ``plugins/nodeaffinity``, component-helpers ``nodeaffinity.go``)."""

from __future__ import annotations

import re
import typing as t

from ...model.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons
from ...model.values.integers import parse_int64

MISMATCH: Reasons = (Reason("node_affinity", "node(s) didn't match Pod's node affinity/selector"),)
UNNAMED: Reasons = (Reason("node_affinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"),)
ENFORCED: Reasons = (Reason("scheduler_node_affinity", "node(s) didn't match scheduler-enforced node affinity"),)
CONFLICT: Reasons = (Reason("node_affinity_conflict", "pod affinity terms conflict"),)
NAME_FIELD = "metadata.name"

_LABEL_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def prepare_names(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Rejects nodes that the affinity leaves out by name, before any other rule is asked, as the plugin's PreFilter does."""
    names = named_nodes(required_affinity(pod))
    if names is None:
        return None
    if not names:
        return lambda _node: CONFLICT
    return lambda node: PASSED if node.name in names else UNNAMED


def is_conflict(pod: Pod) -> bool:
    """The affinity names nodes in a way that none can match, which the scheduler finds out first of all."""
    return named_nodes(required_affinity(pod)) == frozenset()


def prepare(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Rejects nodes that miss a label of the node selector or match no term of the required affinity."""
    selector = tuple((pod.spec.node_selector or {}).items())
    required = required_affinity(pod)
    if not selector and required is None:
        return None
    matches = None if required is None else compile_selector(required)

    def check(node: Node) -> Reasons:
        labels = node.labels
        for key, value in selector:
            if labels.get(key) != value:
                return MISMATCH
        return PASSED if matches is None or matches(node) else MISMATCH

    return check


def prepare_added(added: NodeSelector | None) -> t.Callable[[Node], Reasons] | None:
    """Rejects nodes that match no term of what the scheduler's profile adds to every pod; asked before the pod's own affinity."""
    if added is None:
        return None
    terms = [_compile(term) for term in added.node_selector_terms]
    return lambda node: PASSED if any(term(node) for term in terms) else ENFORCED


def required_affinity(pod: Pod) -> NodeSelector | None:
    """The node affinity that must hold for the pod to be placed."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """The only nodes that can match, where every term names some; None where one of them does not."""
    names: frozenset[str] = frozenset()
    for term in required.node_selector_terms if required is not None else ():
        named = [frozenset(field.values or ()) for field in term.match_fields or () if (field.key, field.operator) == (NAME_FIELD, "In")]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if required is not None and required.node_selector_terms else None


def compile_selector(selector: NodeSelector) -> t.Callable[[Node], bool]:
    """Whether one of the selector's terms holds for a node."""
    terms = [_compile(term) for term in selector.node_selector_terms]
    if len(terms) == 1:
        return terms[0]
    return lambda node: any(term(node) for term in terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether every expression of the term holds for the node; a term without expressions holds for none.

    A malformed expression (which the API server refuses in new pods) makes its whole term hold for none.
    """
    return _compile(term)(node)


if t.TYPE_CHECKING:
    # Whether an expression holds for the value of its label, None being no such label.
    _Test = t.Callable[[t.Optional[str]], bool]


def _compile(term: NodeSelectorTerm) -> t.Callable[[Node], bool]:
    tests = [(expression.key, _label_test(expression)) for expression in term.match_expressions or ()]
    fields = [(field.key, _field_test(field)) for field in term.match_fields or ()]
    if not tests and not fields:
        return lambda _node: False
    if any(test is None for _key, test in (*tests, *fields)):
        return lambda _node: False
    sound = [(key, test) for key, test in tests if test is not None]
    sound_fields = [(key, test) for key, test in fields if test is not None]

    def matches(node: Node) -> bool:
        labels = node.labels
        for key, test in sound:
            if not test(labels.get(key)):
                return False
        return all(test(node.name if key == NAME_FIELD else "") for key, test in sound_fields)

    return matches


def _label_test(requirement: NodeSelectorRequirement) -> _Test | None:
    """None for an expression that is not sound."""
    operator, values = requirement.operator, frozenset(requirement.values or ())
    if not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return None
    if operator in ("Exists", "DoesNotExist") and not values:
        return (lambda value: value is not None) if operator == "Exists" else (lambda value: value is None)
    if operator in ("In", "NotIn") and values:
        return (lambda value: value in values) if operator == "In" else (lambda value: value not in values)
    if operator in ("Gt", "Lt") and len(requirement.values or ()) == 1:
        return _number_test(operator, parse_int64(next(iter(values))))
    return None


def _number_test(operator: str, bound: int | None) -> _Test | None:
    if bound is None:
        return None

    def test(value: str | None) -> bool:
        number = parse_int64(value) if value is not None else None
        if number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return test


def _field_test(requirement: NodeSelectorRequirement) -> _Test | None:
    if len(requirement.values or ()) != 1 or requirement.operator not in ("In", "NotIn"):
        return None
    wanted, same = (requirement.values or ("",))[0], requirement.operator == "In"
    return lambda value: (value == wanted) is same
