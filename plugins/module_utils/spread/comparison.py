# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart or of evictions: a comparison of the skew before and after."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..state.restart_outcome import IMPROVED, UNCHANGED, WORSE, RestartOutcome
from .distribution import Distribution
from .skew_cost import measure_skew


def compare_spread(
    before: t.Optional[Sequence[Distribution]],
    after: Sequence[Distribution],
    *,
    pending: t.Optional[RestartOutcome] = None,
    is_even: bool = False,
) -> str:
    """Return improved, unchanged or worse, by the skew cost.

    Both distributions must be over the same eligible nodes. ``before`` is None if another process read it. Then the result is improved if
    the attempt of the ``pending`` outcome has made progress, and unchanged otherwise. A changed number of replicas changes the cost by
    itself, so only a workload that a restart left well spread (``is_even``) is improved then. Fewer than two replicas have no spread.
    """
    if min(_sizes(after), default=0) < 2:
        return UNCHANGED
    now = measure_skew(after)
    if before is None:
        return IMPROVED if pending is not None and pending.is_progress(now) else UNCHANGED
    if _sizes(before) != _sizes(after):
        return IMPROVED if is_even else UNCHANGED
    then = measure_skew(before)
    if now.cost == then.cost:
        return UNCHANGED
    return IMPROVED if now.cost < then.cost else WORSE


def _sizes(distributions: Sequence[Distribution]) -> list[int]:
    return [distribution.replicas + distribution.without_domain for distribution in distributions]
