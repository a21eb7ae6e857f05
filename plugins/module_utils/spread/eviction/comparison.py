# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of evictions: a comparison of the skew before and after."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE
from ..distribution import Distribution

Gain = tuple[int, ...]


def skew_cost(distributions: Iterable[Distribution]) -> Gain:
    """Return the distance from an even distribution by topology key: the sum of squared counts minus its minimum over the eligible domains.

    A lower cost is a better spread. Replicas in domains that are not eligible (any more) count as well: on a cordoned node they are
    concentrated like anywhere else. A replica in no domain costs more than all replicas in one domain.
    """
    return tuple(_skew_cost_of(distribution) for distribution in distributions)


def _skew_cost_of(distribution: Distribution) -> int:
    counts, domains, nowhere = distribution.placed.values(), len(distribution.domains), distribution.without_domain
    total = sum(counts) + nowhere
    each, more = divmod(total, domains) if domains else (0, 0)
    least = more * (each + 1) ** 2 + (domains - more) * each**2
    return sum(count**2 for count in counts) + nowhere * total**2 - least


def compare_skew(before: t.Optional[t.Sequence[Distribution]], after: t.Sequence[Distribution], *, even: bool) -> str:
    """Return improved, unchanged or worse, by the skew cost.

    Both distributions must be over the same eligible nodes. ``before`` is None if the process that read it was killed. Then the result is
    improved if ``even``, and unchanged otherwise.
    """
    if before is None:
        return IMPROVED if even else UNCHANGED
    now, then = skew_cost(after), skew_cost(before)
    # A changed number of replicas changes the cost by itself, and fewer than two replicas have no spread.
    sizes = [[one.replicas + one.without_domain for one in distributions] for distributions in (before, after)]
    if now == then or sizes[0] != sizes[1] or min(sizes[1], default=0) < 2:
        return UNCHANGED
    return IMPROVED if now < then else WORSE
