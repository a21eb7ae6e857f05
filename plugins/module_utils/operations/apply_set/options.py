# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of an apply set, and the result of a run."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .objects import Json, Reference, namespace_object, set_labels, shown, with_labels
from .rights import permission_objects

NAMESPACE_PART = "namespace"


class ApplySetError(Exception):
    """Says what is wrong, with which object, and what to do."""


@dataclass(frozen=True)
class Options:
    """The options of the module. ``parts`` are the wanted objects by the name of their template."""

    name: str
    component: str
    namespace: str
    parts: Mapping[str, Sequence[Json]]
    kinds: Sequence[str]
    optional_kinds: Sequence[str]
    create_namespace: bool
    removes_state: bool
    components: Sequence[str]
    permissions: t.Optional[Sequence[Mapping[str, t.Any]]]
    user: str
    wait_timeout_s: int
    delete_timeout_s: int
    pending_remedy: str
    check_mode: bool

    def all_parts(self) -> dict[str, list[Json]]:
        """Return the wanted objects with their labels, in the order in which they are applied, by their part."""
        labels = set_labels(self.name, self.component)
        parts: dict[str, list[Json]] = {}
        if self.permissions is not None:
            parts["permissions"] = list(permission_objects(self.name, self.namespace, self.permissions, self.user))
        parts.update((name, list(items)) for name, items in self.parts.items())
        named = {name: [with_labels(item, labels) for item in items] for name, items in parts.items()}
        return {**({NAMESPACE_PART: [namespace_object(self.namespace)]} if self.create_namespace else {}), **named}


@dataclass
class Outcome:
    """The result of a run. ``changes`` has the change of each object: created, changed, deleted or unchanged."""

    changes: dict[Reference, str] = field(default_factory=dict)
    diff: list[Json] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    not_deleted: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    namespace_stays: str = ""

    def note(self, reference: Reference, change: str, before: t.Optional[Json], after: t.Optional[Json]) -> None:
        """Remember what happened to an object."""
        self.changes[reference] = change
        if change != "unchanged":
            text = reference.text
            self.diff.append({"before_header": text, "after_header": text, "before": shown(before), "after": shown(after)})

    @property
    def has_changed(self) -> bool:
        """Return whether an object was changed, or would be."""
        return bool(self.outcomes) or any(change != "unchanged" for change in self.changes.values())

    def result(self, *, check_mode: bool, diff: bool) -> Json:
        """Return the result of the module."""
        planned = [
            f"Would be {change}: {', '.join(reference.text for reference, one in self.changes.items() if one == change)}"
            for change in ("created", "changed", "deleted")
            if check_mode and change in self.changes.values()
        ]
        planned += [f"Would be removed: {', '.join(self.outcomes)}"] if check_mode and self.outcomes else []
        foreign = ", ".join(self.not_deleted)
        kept = [f"Not deleted, because they do not have the labels of this collection: {foreign}"] if foreign else []
        rows = [
            {"kind": reference.kind, "namespace": reference.namespace, "name": reference.name, "change": change}
            for reference, change in self.changes.items()
        ]
        return {
            **({"diff": self.diff} if diff else {}),
            "changed": self.has_changed,
            "objects": rows,
            "remarks": [*planned, *kept, *filter(None, [self.namespace_stays]), *self.remarks],
            "not_deleted": self.not_deleted,
            "outcomes": len(self.outcomes),
            "namespace_stays": self.namespace_stays,
        }
