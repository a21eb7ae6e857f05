# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The distance of a workload's replicas from an even distribution, as a number that can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..state.restart_outcome import SkewMeasure
from .distribution import Distribution

SkewCost = tuple[int, ...]


def skew_cost(distributions: Iterable[Distribution]) -> SkewCost:
    """Return the number of bad topology keys, followed by the distance from an even distribution by key.

    A key is bad if the workload is collapsed over it, or if a replica is in no domain of it.
    The distance is the sum of squared counts minus its minimum over the eligible domains. A lower cost is a better spread. Replicas in
    domains that are not eligible (any more) count as well: on a cordoned node they are concentrated like anywhere else. A replica in no
    domain costs more than all replicas in one domain.
    """
    of_each = tuple(distributions)
    return (sum(one.is_collapsed or one.without_domain > 0 for one in of_each), *map(_skew_cost_of, of_each))


def measure_skew(distributions: Sequence[Distribution]) -> SkewMeasure:
    """Return the skew cost with its basis."""
    parts = [(one.topology_key, len(one.domains), one.replicas + one.without_domain) for one in distributions]
    return SkewMeasure(hashlib.sha256(repr(("collapsed first", parts)).encode()).hexdigest()[:10], skew_cost(distributions))


def _skew_cost_of(distribution: Distribution) -> int:
    counts, domains, nowhere = distribution.placed.values(), len(distribution.domains), distribution.without_domain
    total = sum(counts) + nowhere
    each, more = divmod(total, domains) if domains else (0, 0)
    least = more * (each + 1) ** 2 + (domains - more) * each**2
    return sum(count**2 for count in counts) + nowhere * total**2 - least
