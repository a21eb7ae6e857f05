# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart: a comparison of the distribution before and after."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE, Outcome
from ..distribution import Distribution
from ..skew_cost import measure_skew
from ..verdict import SPREAD, imbalance_rank, worst_verdict


def compare_spread(
    before: t.Optional[Sequence[Distribution]],
    after: Sequence[Distribution],
    *,
    max_skew: t.Optional[int],
    pending: t.Optional[Outcome] = None,
) -> str:
    """Return improved, unchanged or worse, by the imbalance rank.

    Both distributions must be over the same eligible nodes. ``before`` is None if another process read it. Then the ``pending`` outcome
    decides (``Outcome.has_improved``). A changed number of replicas changes the rank by itself, so only a workload that is well spread is
    improved then. Fewer than two replicas are unchanged.
    """
    if any(distribution.replicas + distribution.without_domain < 2 for distribution in after):
        return UNCHANGED
    if before is None:
        is_even = is_well_spread(after, max_skew=max_skew)
        return IMPROVED if pending is not None and pending.has_improved(measure_skew(after), is_even=is_even) else UNCHANGED
    if _sizes(before) != _sizes(after):
        return IMPROVED if is_well_spread(after, max_skew=max_skew) else UNCHANGED
    now, then = imbalance_rank(after, max_skew=max_skew), imbalance_rank(before, max_skew=max_skew)
    if now == then:
        return UNCHANGED
    return IMPROVED if now < then else WORSE


def is_well_spread(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> bool:
    """Return whether the workload is healthy and has more than one eligible domain."""
    return worst_verdict(distributions, max_skew=max_skew).reason.code == SPREAD


def _sizes(distributions: Sequence[Distribution]) -> list[int]:
    return [distribution.replicas + distribution.without_domain for distribution in distributions]
