# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Node selectors: compile them and match them with nodes (component-helpers ``nodeaffinity.go``)."""

from __future__ import annotations

import re
import typing as t

from ..api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ..values.integers import parse_int64

NAME_FIELD = "metadata.name"

_LABEL_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def compile_selector(selector: NodeSelector) -> t.Callable[[Node], bool]:
    """Return a function that returns whether at least one term of the selector matches a node."""
    terms = [_compile_term(term) for term in selector.node_selector_terms]
    if len(terms) == 1:
        return terms[0]
    return lambda node: any(term(node) for term in terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether every expression of the term matches the node. A term without expressions matches no node.

    If an expression is malformed, the term matches no node. The API server rejects malformed expressions in new pods.
    """
    return _compile_term(term)(node)


if t.TYPE_CHECKING:
    # Returns whether an expression matches the value of its label. None means that the node does not have the label.
    _Test = t.Callable[[t.Optional[str]], bool]


def _compile_term(term: NodeSelectorTerm) -> t.Callable[[Node], bool]:
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
    """Return the test of an expression, or None if the expression is malformed."""
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
