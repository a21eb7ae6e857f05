# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart: a comparison of the distribution before and after."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE
from ..distribution import Distribution
from ..verdict import SPREAD, imbalance_rank, worst_verdict


def compare_spread(before: t.Optional[Sequence[Distribution]], after: Sequence[Distribution], *, max_skew: t.Optional[int]) -> str:
    """Return improved, unchanged or worse, by the imbalance rank.

    Both distributions must be over the same eligible nodes. ``before`` is None if the process that read it was killed. Then a workload that
    is well spread is improved, and any other is unchanged. Fewer than two replicas are unchanged.
    """
    if any(distribution.replicas + distribution.without_domain < 2 for distribution in after):
        return UNCHANGED
    if before is None:
        return IMPROVED if is_well_spread(after, max_skew=max_skew) else UNCHANGED
    now, then = imbalance_rank(after, max_skew=max_skew), imbalance_rank(before, max_skew=max_skew)
    if now == then:
        return UNCHANGED
    return IMPROVED if now < then else WORSE


def is_well_spread(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> bool:
    """Return whether the workload is healthy and has more than one eligible domain."""
    return worst_verdict(distributions, max_skew=max_skew).reason.code == SPREAD
