# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of evictions: the distance from an even distribution before compared with the one after."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE
from ..distribution import Distribution

Gain = tuple[int, ...]


def skew_cost(distributions: Iterable[Distribution]) -> Gain:
    """How far from even the replicas lie, by topology key: the sum of squared counts, above the least one over the eligible domains.

    It is lower where they are spread better. Replicas in domains that are not eligible (any more) count as well: on a cordoned node
    they are as piled up as anywhere. One in no domain at all is worse than all in one.
    """
    return tuple(_skew_cost_of(distribution) for distribution in distributions)


def _skew_cost_of(distribution: Distribution) -> int:
    counts, domains, nowhere = distribution.placed.values(), len(distribution.domains), distribution.without_domain
    total = sum(counts) + nowhere
    each, more = divmod(total, domains) if domains else (0, 0)
    least = more * (each + 1) ** 2 + (domains - more) * each**2
    return sum(count**2 for count in counts) + nowhere * total**2 - least


def compare_skew(before: t.Optional[t.Sequence[Distribution]], after: t.Sequence[Distribution], *, even: bool) -> str:
    """improved, unchanged or worse, by how far from even the replicas lie; both looks must be over the same eligible nodes.

    Without ``before`` (the process that saw it was killed) only what is ``even`` counts as improved.
    """
    if before is None:
        return IMPROVED if even else UNCHANGED
    now, then = skew_cost(after), skew_cost(before)
    # Another number of replicas lies better or worse for that reason alone, and fewer than two show nothing.
    sizes = [[one.replicas + one.without_domain for one in look] for look in (before, after)]
    if now == then or sizes[0] != sizes[1] or min(sizes[1], default=0) < 2:
        return UNCHANGED
    return IMPROVED if now < then else WORSE
