# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Label selectors as the API applies them (apimachinery ``meta/v1/helpers.go`` and ``labels/selector.go``)."""

from __future__ import annotations

from collections.abc import Mapping

from ..api.meta import LabelSelector, LabelSelectorRequirement


def matches(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Return whether the selector selects an object with these labels. None selects nothing, an empty selector selects everything."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    return all(_requirement_holds(requirement, labels) for requirement in selector.match_expressions or ())


def selected_keys(selector: LabelSelector) -> tuple[str, ...]:
    """Return the label keys that the selector names."""
    return (*(selector.match_labels or ()), *(requirement.key for requirement in selector.match_expressions or ()))


def as_query(selector: LabelSelector) -> str:
    """Return the selector as the text of a ``labelSelector`` query parameter."""
    equal = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    return ",".join(equal + [_requirement_as_query(requirement) for requirement in selector.match_expressions or ()])


def _requirement_as_query(requirement: LabelSelectorRequirement) -> str:
    if requirement.operator == "Exists":
        return requirement.key
    if requirement.operator == "DoesNotExist":
        return f"!{requirement.key}"
    return f"{requirement.key} {requirement.operator.lower()} ({','.join(requirement.values or ())})"


def _requirement_holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    present = requirement.key in labels
    values = requirement.values or ()
    if requirement.operator == "In":
        return present and labels[requirement.key] in values
    if requirement.operator == "NotIn":
        return not present or labels[requirement.key] not in values
    if requirement.operator == "Exists":
        return present
    if requirement.operator == "DoesNotExist":
        return not present
    return False
