# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The namespaces that the check covers, and the reasons why others are skipped."""

from __future__ import annotations

import shlex
import typing as t
from collections.abc import Mapping

from ..model.api.namespace import Namespace
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from .options import CheckOptions

NO_NAMESPACE = "no_namespace"
UNREADABLE = "unreadable"
"""The code of the reason if namespaces are chosen and none of them can be read."""


def choose_namespaces(snapshot: ClusterSnapshot, options: CheckOptions) -> tuple[list[Namespace], dict[str, Reason]]:
    """Return the namespaces to check and the reasons for skipped ones.

    Skipped are chosen namespaces that cannot be read, and namespaces that the option names and that lack the annotation or the labels. A
    namespace without them is not chosen, so its readability does not matter.
    """
    unreadable = _unreadable(snapshot)
    chosen: list[Namespace] = []
    skipped: dict[str, Reason] = {}
    for name in _wanted(snapshot, options):
        namespace = snapshot.namespaces.get(name)
        if namespace is not None and not _is_annotated(namespace, options.namespace_annotations):
            if options.namespaces is not None:
                skipped[name] = Reason("not_annotated", _not_annotated(namespace, *options.namespace_annotations[0]))
        elif namespace is not None and not _has_labels(namespace, options.namespace_label_selectors):
            if options.namespaces is not None:
                skipped[name] = Reason("labels_not_matched", f"its labels do not match {','.join(options.namespace_label_selectors)}")
        elif name in unreadable:
            skipped[name] = unreadable[name]
        elif namespace is not None:
            chosen.append(namespace)
    return chosen, skipped


def _wanted(snapshot: ClusterSnapshot, options: CheckOptions) -> list[str]:
    """Return the names of the namespaces that may be chosen. Excluded namespaces may not.

    Without the option, namespaces whose Namespace object cannot be decoded are included.
    """
    excluded = set(options.exclude_namespaces)
    if options.namespaces is not None:
        return [name for name in dict.fromkeys(options.namespaces) if name not in excluded]
    undecodable = {one.metadata.name for one in snapshot.undecodable_of("Namespace") if one.metadata.name}
    return sorted(undecodable.union(snapshot.namespaces) - excluded)


def _unreadable(snapshot: ClusterSnapshot) -> dict[str, Reason]:
    """Return the namespaces that cannot be read completely, with one reason for each."""
    reasons = {entry.namespace: Reason(UNREADABLE, entry.reason) for entry in snapshot.skipped if entry.namespace}
    reasons.update({one.metadata.name: one.reason for one in snapshot.undecodable_of("Namespace")})
    return reasons


def nothing_chosen_reason(snapshot: ClusterSnapshot, options: CheckOptions, skipped: Mapping[str, Reason]) -> Reason:
    """Return the reason why no namespace is checked: none is chosen, or none of the chosen ones can be read."""
    unreadable = _unreadable(snapshot)
    found = [name for name, reason in skipped.items() if unreadable.get(name) == reason]
    if not found:
        return Reason(NO_NAMESPACE, _no_namespace(options))
    number = pluralize(len(found), "namespace")
    reasons = f"({found[0]}: {unreadable[found[0]].text})"
    if options.namespaces is not None or not options.namespace_annotations:
        return Reason(UNREADABLE, f"{number} {'is' if len(found) == 1 else 'are'} chosen and none can be read {reasons}")
    annotation = "=".join(options.namespace_annotations[0])
    verb = "has" if len(found) == 1 else "have"
    uncertain = "" if all(name in snapshot.namespaces for name in found) else ", or may have it,"
    return Reason(UNREADABLE, f"{number} {verb} the annotation {annotation}{uncertain} and none can be read {reasons}")


def _no_namespace(options: CheckOptions) -> str:
    if options.namespaces is not None:
        return "none of the given namespaces can be checked"
    narrowed = "".join(
        f"; {name} {'is' if len(values) == 1 else 'are'} {','.join(values)}" for name, values in _narrowing(options) if values
    )
    if not options.namespace_annotations:
        return f"there is no namespace to check{narrowed}"
    key, value = options.namespace_annotations[0]
    if narrowed:
        return f"no namespace has the annotation {key}={value} and is chosen{narrowed}"
    return f"no namespace has the annotation {key}={value}; choose with: kubectl annotate namespace NAME {shlex.quote(f'{key}={value}')}"


def _narrowing(options: CheckOptions) -> tuple[tuple[str, t.Sequence[str]], ...]:
    return (
        ("exclude_namespaces", options.exclude_namespaces),
        ("namespace_label_selectors", options.namespace_label_selectors),
    )


def _not_annotated(namespace: Namespace, key: str, value: str) -> str:
    present = (namespace.metadata.annotations or {}).get(key)
    command = f"{namespace.metadata.name} {shlex.quote(f'{key}={value}')}"
    if present is None:
        return f"namespace has no annotation {key}={value}; to include it: kubectl annotate namespace {command}"
    return f"its annotation {key} is {present!r}, not {value!r}; to include it: kubectl annotate --overwrite namespace {command}"


def _is_annotated(namespace: Namespace, annotations: t.Sequence[tuple[str, str]]) -> bool:
    """Return whether the namespace has one of the annotations, or none is required."""
    present = namespace.metadata.annotations or {}
    return not annotations or any(present.get(key) == value for key, value in annotations)


def _has_labels(namespace: Namespace, requirements: t.Sequence[str]) -> bool:
    if not requirements:
        return True
    from ..model.selectors.selector_text import match_labels  # most checks have no selector

    return match_labels(requirements, namespace.metadata.labels)
