# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of what one exporter, one node and one pod may add to the memory of the extender.

An exporter chooses the number and the labels of its series. The API server limits the length of one label and of one resource name, but not
their number, and not the name of an owner. All of them in one object can have a megabyte.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

T = t.TypeVar("T")

MAX_SERIES = 1024
"""Series of one query for one node. A node with more of them is unknown. One with 500 pods has about 500 network devices."""

MAX_LINE_BYTES = 4096
"""Bytes of one line of an exporter, and of the labels of one series in an answer of Prometheus."""

MAX_SERIES_LABEL_CHARACTERS = 512
"""Characters of the value of one label of a series."""

MAX_WANTED_BYTES = 1024 * 1024
"""Bytes of the lines that are parsed. A machine with 512 CPUs has 240,000 bytes of ``node_cpu_seconds_total``. 1 MiB takes 0.2 to 0.6 s."""

FIRST_ANSWER_BYTES, ANSWER_BYTES_OF_NODE, MOST_ANSWER_BYTES = 1024 * 1024, 64 * 1024, 32 * 1024 * 1024

MAX_ANNOTATIONS = 256
"""Annotations of one node that can be values. The kubelet of the node can write any number of them."""

MAX_LABELS = 128
MAX_LABEL_CHARACTERS = 16 * 1024
"""Characters of all names and values of the labels of a pod or node."""
FIRST_LABELS = frozenset(("podtype", "app", "name", "pod-template-hash"))
"""The labels that the agents and the names of owners use. They are kept first."""

MAX_RESOURCES = 64
MAX_RESOURCE_CHARACTERS = 8 * 1024
"""Characters of the names of all requested resources."""
FIRST_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
"""The resources that are kept first."""

MAX_NAME = 253
"""Characters of the name of an object. The API server does not check the name in an owner reference."""


def long_label_violation(labels: Mapping[str, str]) -> str:
    """Return the reason why a series with these labels is not read, or an empty text."""
    name = next((name for name, value in labels.items() if len(value) > MAX_SERIES_LABEL_CHARACTERS), None)
    return "" if name is None else f"a value of the label {name} has more than {MAX_SERIES_LABEL_CHARACTERS} characters"


def answer_bytes(nodes: int | None) -> int:
    """Return the limit of an answer of Prometheus about a cluster with this number of nodes. An answer has about 300 bytes for a series."""
    return MOST_ANSWER_BYTES if nodes is None else min(MOST_ANSWER_BYTES, FIRST_ANSWER_BYTES + nodes * ANSWER_BYTES_OF_NODE)


def limited_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels within the limits: the same object if there are not too many, and otherwise the shortest labels."""
    lengths = {name: len(name) + len(text) for name, text in labels.items()}
    return _limited(labels, lengths, FIRST_LABELS, MAX_LABELS, MAX_LABEL_CHARACTERS)


def limited_requests(requests: Mapping[str, T]) -> Mapping[str, T]:
    """Return the requests within the limits: the same object, or those of the resources with the shortest names if there are too many."""
    return _limited(requests, {name: len(name) for name in requests}, FIRST_RESOURCES, MAX_RESOURCES, MAX_RESOURCE_CHARACTERS)


def _limited(entries: Mapping[str, T], lengths: Mapping[str, int], first: frozenset[str], most: int, characters: int) -> Mapping[str, T]:
    """Return the entries within the limits: those of ``first``, followed by those with the least length. ``lengths`` are in characters."""
    if len(entries) <= most and sum(lengths.values()) <= characters:
        return entries
    kept = {}
    for name in sorted(entries, key=lambda name: (name not in first, lengths[name], name))[:most]:
        characters -= lengths[name]
        if characters < 0:
            break
        kept[name] = entries[name]
    return kept
