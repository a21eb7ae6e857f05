# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Label selectors as the API applies them (apimachinery ``meta/v1/helpers.go`` and ``labels/selector.go``)."""

from __future__ import annotations

from collections.abc import Mapping

from .objects import LabelSelector, LabelSelectorRequirement


def matches(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether the selector selects an object with these labels; None selects nothing, an empty selector everything."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    return all(_requirement_holds(requirement, labels) for requirement in selector.match_expressions or ())


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
