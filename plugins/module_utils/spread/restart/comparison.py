# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart: the distribution before compared with the one after."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...state.restart_outcome import IMPROVED, UNCHANGED, WORSE
from ..distribution import Distribution
from ..verdict import SPREAD, imbalance_rank, worst_verdict


def compare_spread(before: t.Optional[Sequence[Distribution]], after: Sequence[Distribution], *, max_skew: t.Optional[int]) -> str:
    """The outcome of a second look: improved, unchanged or worse. Both looks must be over the same eligible nodes.

    Without ``before`` (the process that saw it was killed) a real spread counts as improved, anything else as unchanged. Fewer than two
    replicas show nothing.
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
    """Healthy, and not merely because there is only one place to be."""
    return worst_verdict(distributions, max_skew=max_skew).reason.code == SPREAD
