# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limit of the labels of a kept pod.

The API server limits the length of a label, but not the number of labels: those of one pod can have a megabyte.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_LABELS = 128
MAX_CHARACTERS = 16 * 1024
"""Characters of all names and values."""
FIRST = frozenset(("podtype", "app", "name", "pod-template-hash"))
"""The labels that the agents and the names of owners use. They are kept first."""


def limited_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels within the limits. Without too many it is the same object; else the shortest labels stay."""
    if len(labels) <= MAX_LABELS and sum(map(len, labels)) + sum(map(len, labels.values())) <= MAX_CHARACTERS:
        return labels
    kept: dict[str, str] = {}
    left = MAX_CHARACTERS
    for name in sorted(labels, key=lambda name: (name not in FIRST, len(name) + len(labels[name]), name))[:MAX_LABELS]:
        left -= len(name) + len(labels[name])
        if left < 0:
            break
        kept[name] = labels[name]
    return kept
