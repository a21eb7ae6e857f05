# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of the labels, resources and owners of pods and nodes that are kept.

The API server limits the length of one label and of one resource name, but not their number, and not the name of an owner. Those of one
object can have a megabyte.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

T = t.TypeVar("T")

MAX_LABELS = 128
MAX_LABEL_CHARACTERS = 16 * 1024
"""Characters of all names and values of labels."""
FIRST_LABELS = frozenset(("podtype", "app", "name", "pod-template-hash"))
"""The labels that the agents and the names of owners use. They are kept first."""

MAX_RESOURCES = 64
MAX_RESOURCE_CHARACTERS = 8 * 1024
"""Characters of the names of all requested resources."""
FIRST_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
"""The resources that are kept first."""

MAX_NAME = 253
"""Characters of the name of an object. The API server does not check the name in an owner reference."""


def limited_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels within the limits. Without too many it is the same object; else the shortest labels stay."""
    lengths = {name: len(name) + len(text) for name, text in labels.items()}
    if len(labels) <= MAX_LABELS and sum(lengths.values()) <= MAX_LABEL_CHARACTERS:
        return labels
    return {name: labels[name] for name in _shortest(lengths, FIRST_LABELS, MAX_LABELS, MAX_LABEL_CHARACTERS)}


def limited_requests(requests: Mapping[str, T]) -> Mapping[str, T]:
    """Return the requests within the limits. Without too many it is the same object; else the resources with the shortest names stay."""
    if len(requests) <= MAX_RESOURCES and sum(map(len, requests)) <= MAX_RESOURCE_CHARACTERS:
        return requests
    lengths = {name: len(name) for name in requests}
    return {name: requests[name] for name in _shortest(lengths, FIRST_RESOURCES, MAX_RESOURCES, MAX_RESOURCE_CHARACTERS)}


def limited_name(name: str) -> str:
    """Return the beginning of a name, with the maximum length of a name."""
    return name[:MAX_NAME]


def _shortest(lengths: Mapping[str, int], first: frozenset[str], most: int, characters: int) -> list[str]:
    """Return the names within the limits: those of ``first``, followed by those with the least length. ``lengths`` are in characters."""
    kept = []
    for name in sorted(lengths, key=lambda name: (name not in first, lengths[name], name))[:most]:
        characters -= lengths[name]
        if characters < 0:
            break
        kept.append(name)
    return kept
