# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of evictions: a comparison of the skew before and after."""

from __future__ import annotations

import typing as t

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE, Outcome
from ..distribution import Distribution
from ..skew_cost import measure_skew, skew_cost


def compare_skew(
    before: t.Optional[t.Sequence[Distribution]], after: t.Sequence[Distribution], *, even: bool, pending: t.Optional[Outcome] = None
) -> str:
    """Return improved, unchanged or worse, by the skew cost.

    Both distributions must be over the same eligible nodes. ``before`` is None if another process read it. Then the ``pending`` outcome
    decides (``Outcome.has_improved``). ``even``: no further eviction is useful.
    """
    if before is None:
        return IMPROVED if pending is not None and pending.has_improved(measure_skew(after), is_even=even) else UNCHANGED
    now, then = skew_cost(after), skew_cost(before)
    # A changed number of replicas changes the cost by itself, and fewer than two replicas have no spread.
    sizes = [[one.replicas + one.without_domain for one in distributions] for distributions in (before, after)]
    if now == then or sizes[0] != sizes[1] or min(sizes[1], default=0) < 2:
        return UNCHANGED
    return IMPROVED if now < then else WORSE
