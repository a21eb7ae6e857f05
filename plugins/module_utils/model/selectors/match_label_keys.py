# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""``matchLabelKeys`` and ``mismatchLabelKeys``: add the pod's own labels to its selectors, and remove them.

Source: kubernetes ``pkg/registry/core/pod/strategy.go`` (applyMatchLabelKeysAndMismatchLabelKeys, applyMatchLabelKeys).
"""

from __future__ import annotations

import typing as t

from ..api.meta import Labels, LabelSelector, LabelSelectorRequirement
from ..api.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from ..codec import replace
from .label_selector import selected_keys


def with_merged_label_keys(spec: PodSpec, labels: Labels) -> PodSpec:
    """Return the spec with ``matchLabelKeys`` and ``mismatchLabelKeys`` merged into the selectors of the pod affinity terms.

    Required and preferred terms of pod affinity and of pod anti-affinity are merged. Source: kubernetes
    ``pkg/registry/core/pod/strategy.go``.
    """
    affinity = spec.affinity
    if affinity is None or not any(_has_label_keys(part) for part in (affinity.pod_affinity, affinity.pod_anti_affinity)):
        return spec
    merged = replace(
        affinity,
        pod_affinity=_with_merged_part(affinity.pod_affinity, labels),
        pod_anti_affinity=_with_merged_part(affinity.pod_anti_affinity, labels),
    )
    return replace(spec, affinity=merged)


def _has_label_keys(part: PodAffinity | None) -> bool:
    if part is None:
        return False
    terms = [*(part.required_during_scheduling_ignored_during_execution or ())]
    terms += [one.pod_affinity_term for one in part.preferred_during_scheduling_ignored_during_execution or ()]
    return any(term.match_label_keys or term.mismatch_label_keys for term in terms)


def _with_merged_part(part: PodAffinity | None, labels: Labels) -> PodAffinity | None:
    def merged(selector: LabelSelector | None, match: Keys, mismatch: Keys) -> LabelSelector | None:
        return with_label_keys(selector, labels, match=match, mismatch=mismatch)

    return _in_terms(part, merged)


def with_label_keys(
    selector: LabelSelector | None,
    labels: Labels | None,
    *,
    match: t.Optional[tuple[str, ...]] = None,
    mismatch: t.Optional[tuple[str, ...]] = None,
) -> LabelSelector | None:
    """Return the selector with the pod's own values of ``matchLabelKeys`` and ``mismatchLabelKeys``.

    Keys that the pod does not have are ignored.
    """
    labels = labels or {}
    keys = [("In", key) for key in match or ()] + [("NotIn", key) for key in mismatch or ()]
    own = [LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for operator, key in keys if key in labels]
    if selector is None or not own:
        return selector
    return replace(selector, match_expressions=(*(selector.match_expressions or ()), *own))


Keys = t.Optional[tuple[str, ...]]
SelectorChange = t.Callable[[t.Optional[LabelSelector], Keys, Keys], t.Optional[LabelSelector]]
"""A function that returns the new selector. It gets the old selector, its keys to match and its keys to mismatch."""


def without_merged_label_keys(pod: Pod) -> PodSpec:
    """Return the pod's spec without the expressions that ``matchLabelKeys`` and ``mismatchLabelKeys`` have added to its selectors.

    If there are none, the same spec is returned. The API server rejects a user's selector that contains a key of ``matchLabelKeys``, but it
    accepts one that contains a key of ``mismatchLabelKeys``.
    """
    labels = pod.metadata.labels or {}
    return _with_selectors(pod.spec, lambda selector, match, mismatch: _without_merged(selector, match or (), mismatch or (), labels))


def with_label_value(spec: PodSpec, key: str, old: str, new: str) -> PodSpec:
    """Return the spec with another value of one label in every selector that requires the old value.

    If no selector requires it, the same object is returned.
    """
    return spec if old == new else _with_selectors(spec, lambda selector, _match, _mismatch: _with_value(selector, key, old, new))


def selector_keys(spec: PodSpec) -> set[str]:
    """Return the label keys that the selectors of the spec use."""
    found: set[str] = set()

    def note(selector: LabelSelector | None, match: Keys, mismatch: Keys) -> LabelSelector | None:
        found.update(_keys(selector, match, mismatch))
        return selector

    _with_selectors(spec, note)
    return found


def term_selector_keys(term: PodAffinityTerm) -> set[str]:
    """Return the label keys that the selector of one term uses."""
    return _keys(term.label_selector, term.match_label_keys, term.mismatch_label_keys)


def _keys(selector: LabelSelector | None, match: Keys, mismatch: Keys) -> set[str]:
    found = {*(match or ()), *(mismatch or ())}
    if selector is not None:
        found.update(selected_keys(selector))
    return found


# --- one selector -----------------------------------------------------------------------------------------------------


def _without_merged(
    selector: LabelSelector | None, match: tuple[str, ...], mismatch: tuple[str, ...], labels: Labels
) -> LabelSelector | None:
    if selector is None or not selector.match_expressions or not (match or mismatch):
        return selector
    kept = [one for one in selector.match_expressions if one.operator != "In" or one.key not in match]
    for key in mismatch:
        merged = LabelSelectorRequirement(key, "NotIn", (labels.get(key, ""),))
        if merged in kept:  # only the last one: the user wrote the others
            del kept[len(kept) - 1 - kept[::-1].index(merged)]
    return selector if len(kept) == len(selector.match_expressions) else replace(selector, match_expressions=tuple(kept) or None)


def _with_value(selector: LabelSelector | None, key: str, old: str, new: str) -> LabelSelector | None:
    if selector is None:
        return None
    labels, expressions = selector.match_labels, selector.match_expressions
    if labels and labels.get(key) == old:
        labels = {**labels, key: new}
    if any(one.key == key and old in (one.values or ()) for one in expressions or ()):
        expressions = tuple(_expression_with_value(one, key, old, new) for one in expressions or ())
    if labels is selector.match_labels and expressions is selector.match_expressions:
        return selector
    return replace(selector, match_labels=labels, match_expressions=expressions)


def _expression_with_value(one: LabelSelectorRequirement, key: str, old: str, new: str) -> LabelSelectorRequirement:
    if one.key != key:
        return one
    return replace(one, values=tuple(new if value == old else value for value in one.values or ()))


# --- all selectors of a spec ------------------------------------------------------------------------------------------


def _with_selectors(spec: PodSpec, change: SelectorChange) -> PodSpec:
    affinity = _in_affinity(spec.affinity, change) if spec.affinity is not None else None
    constraints = _each(spec.topology_spread_constraints, lambda one: _in_constraint(one, change))
    if affinity is spec.affinity and constraints is spec.topology_spread_constraints:
        return spec
    return replace(spec, affinity=affinity, topology_spread_constraints=constraints)


def _in_constraint(constraint: TopologySpreadConstraint, change: SelectorChange) -> TopologySpreadConstraint:
    selector = change(constraint.label_selector, constraint.match_label_keys, None)
    return constraint if selector is constraint.label_selector else replace(constraint, label_selector=selector)


def _in_affinity(affinity: Affinity, change: SelectorChange) -> Affinity:
    near = _in_terms(affinity.pod_affinity, change)
    apart = _in_terms(affinity.pod_anti_affinity, change)
    if near is affinity.pod_affinity and apart is affinity.pod_anti_affinity:
        return affinity
    return replace(affinity, pod_affinity=near, pod_anti_affinity=apart)


def _in_terms(part: PodAffinity | None, change: SelectorChange) -> PodAffinity | None:
    if part is None:
        return None
    required = _each(part.required_during_scheduling_ignored_during_execution, lambda term: _in_term(term, change))
    soft = part.preferred_during_scheduling_ignored_during_execution
    preferred = _each(soft, lambda one: _with_term(one, _in_term(one.pod_affinity_term, change)))
    if required is part.required_during_scheduling_ignored_during_execution and preferred is soft:
        return part
    return replace(
        part,
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=preferred,
    )


def _with_term(weighted: t.Any, term: PodAffinityTerm) -> t.Any:
    return weighted if term is weighted.pod_affinity_term else replace(weighted, pod_affinity_term=term)


def _in_term(term: PodAffinityTerm, change: SelectorChange) -> PodAffinityTerm:
    selector = change(term.label_selector, term.match_label_keys, term.mismatch_label_keys)
    return term if selector is term.label_selector else replace(term, label_selector=selector)


T = t.TypeVar("T")


def _each(items: tuple[T, ...] | None, change: t.Callable[[T], T]) -> tuple[T, ...] | None:
    """Return the changed items. If no item changes, return the same tuple."""
    if not items:
        return items
    changed = tuple(map(change, items))
    return items if all(new is old for new, old in zip(changed, items)) else changed
