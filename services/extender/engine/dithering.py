# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rounding of a score to an integer.

Eleven integers hide small differences of load. Each pod is therefore rounded with one of several offsets: floor(score + offset). Over many
pods a node with the score 7.25 gets 8 in one of four tables. For one pod the order of nodes is never inverted, and equal nodes are equal.
"""

from __future__ import annotations

from zlib import crc32

TABLES = 16
"""The number of offsets. It is a power of two, and divides one point of the score into steps of 1/16."""

OFFSETS = tuple((number + 0.5) / TABLES for number in range(TABLES))
"""The middles of equal parts of 0 to 1, so that the mean over all tables differs from the score by at most 1/32."""

BEST = 10

_ROUNDED = tuple(bytes(min(BEST, (step + number) // TABLES) for step in range(256)) for number in range(TABLES))
"""For each table the integer of each step."""


def table_key(namespace: str, name: str, uid: str) -> str:
    """Return what selects the table of a pod: the UID, or the name of a pod without a UID."""
    return uid or f"{namespace}/{name}"


def table_of(key: str) -> int:
    """Return the number of the table of a pod by its ``table_key``. A repeated request therefore gets the same answer."""
    return crc32(key.encode("utf-8", "surrogatepass")) % TABLES


def step_of(score: float) -> int:
    """Return the nearest step of 1/16 point, from 0 to 160. ``score`` is in 0 to 10. The tables need no finer score."""
    return int(score * TABLES + 0.5)


def rounded(score: float, table: int) -> int:
    """Return the integer score of a table, floor(score + offset). ``score`` is in 0 to 10."""
    return _ROUNDED[table][step_of(score)]


def all_rounded(steps: bytes | bytearray, table: int) -> bytes | bytearray:
    """Return the same for the steps of many scores."""
    return steps.translate(_ROUNDED[table])
