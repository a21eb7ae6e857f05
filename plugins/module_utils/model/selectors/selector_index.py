# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An index to find the label selectors that select a set of labels, without comparing every selector."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ..api.meta import LabelSelector
from ..codec import encode_json
from .label_selector import matches

T = t.TypeVar("T")
Label = tuple[str, str]


class _Entry(t.NamedTuple):
    """A selector and the numbers of the items that have it. Equal selectors share one entry and are compared once."""

    selector: LabelSelector
    numbers: list[int]


class SelectorIndex(t.Generic[T]):
    """Items by their label selectors. Read only.

    A selector is listed under labels so that each object that it selects has at least one of them. A selector without such labels is listed
    under a key that each selected object has. If there is no such key either, the selector is compared with every set of labels.
    """

    def __init__(self, items: Iterable[tuple[LabelSelector | None, T]]) -> None:
        self._items: list[T] = []
        self._by_label: dict[Label, list[_Entry]] = {}
        self._by_key: dict[str, list[_Entry]] = {}
        self._others: list[_Entry] = []
        # The keys that decide whether a selector in ``_others`` selects an object, and a cache of the results by the labels with these
        # keys.
        self._other_keys: set[str] = set()
        self._known: dict[tuple[Label, ...], list[int]] = {}
        entries: dict[bytes, _Entry] = {}
        for selector, item in items:
            self._items.append(item)
            if selector is None:
                continue
            encoded = encode_json(selector)
            entry = entries.get(encoded)
            if entry is None:
                entry = entries[encoded] = _Entry(selector, [])
                self._list(entry)
            entry.numbers.append(len(self._items) - 1)

    def selecting(self, *label_sets: Mapping[str, str] | None) -> list[T]:
        """Return the items whose selector selects an object with one of these label sets, in the order in which they were given."""
        numbers: set[int] = set()
        for labels in label_sets:
            self._add_numbers(numbers, labels or {})
        return [self._items[number] for number in sorted(numbers)]

    def _add_numbers(self, numbers: set[int], labels: Mapping[str, str]) -> None:
        if self._others:
            numbers.update(self._other_numbers(labels))
        for label in labels.items():
            for entries in (self._by_label.get(label, ()), self._by_key.get(label[0], ())):
                for entry in entries:
                    if matches(entry.selector, labels):
                        numbers.update(entry.numbers)

    def _list(self, entry: _Entry) -> None:
        """List the entry under the required labels with the fewest other entries.

        A label that all objects have would need many comparisons.
        """
        choices = _choices(entry.selector)
        if choices:
            for label in min(choices, key=lambda labels: max((len(self._by_label.get(label, ())) for label in labels), default=0)):
                self._by_label.setdefault(label, []).append(entry)
            return
        requirements = entry.selector.match_expressions or ()
        key = next((requirement.key for requirement in requirements if requirement.operator == "Exists"), None)
        if key is not None:
            self._by_key.setdefault(key, []).append(entry)
            return
        self._others.append(entry)
        self._other_keys.update(requirement.key for requirement in requirements)

    def _other_numbers(self, labels: Mapping[str, str]) -> list[int]:
        """Return the numbers of the items in ``_others`` whose selector selects the labels."""
        decisive = tuple((key, labels[key]) for key in self._other_keys if key in labels)
        known = self._known.get(decisive)
        if known is None:
            known = [number for entry in self._others if matches(entry.selector, labels) for number in entry.numbers]
            self._known[decisive] = known
        return known


def _choices(selector: LabelSelector) -> list[set[Label]]:
    """Return sets of labels. An object that the selector selects has at least one label of each set."""
    choices: list[set[Label]] = [{label} for label in (selector.match_labels or {}).items()]
    for requirement in selector.match_expressions or ():
        if requirement.operator == "In":
            choices.append({(requirement.key, value) for value in requirement.values or ()})
    return choices
