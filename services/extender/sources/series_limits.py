# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of what one node may add to the memory of the extender. An exporter chooses the number and the labels of its series."""

from __future__ import annotations

from collections.abc import Mapping

MAX_SERIES = 1024
"""Series of one query for one node. A node with more of them is unknown. One with 500 pods has about 500 network devices."""

MAX_LINE_BYTES = 4096
"""Bytes of one line of an exporter, and of the labels of one series in an answer of Prometheus."""

MAX_LABEL_CHARACTERS = 512
"""Characters of the value of one label."""

FIRST_ANSWER_BYTES, ANSWER_BYTES_OF_NODE, MOST_ANSWER_BYTES = 1024 * 1024, 64 * 1024, 32 * 1024 * 1024


def long_label_violation(labels: Mapping[str, str]) -> str:
    """Return the reason why a series with these labels is not read, or an empty text."""
    name = next((name for name, value in labels.items() if len(value) > MAX_LABEL_CHARACTERS), None)
    return "" if name is None else f"a value of the label {name} has more than {MAX_LABEL_CHARACTERS} characters"


def answer_bytes(nodes: int) -> int:
    """Return the limit of an answer of Prometheus about a cluster with this number of nodes. An answer has about 300 bytes for a series."""
    return min(MOST_ANSWER_BYTES, FIRST_ANSWER_BYTES + nodes * ANSWER_BYTES_OF_NODE)
