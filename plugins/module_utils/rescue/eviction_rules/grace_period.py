# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod whose own grace period is longer than the maximum for victims is not evicted. A victim gets at most this maximum."""

from __future__ import annotations

import typing as t
from functools import lru_cache

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..options import RescueOptions
from ..victims.pod_traits import is_controlled_by, own_grace_period_s

GRACE_TOO_LONG = "grace_too_long"


def victim_grace_period_s(pod: Pod, options: RescueOptions) -> int:
    """Return the seconds that the pod gets to end, as a whole number.

    It is at least 1 for a pod of a StatefulSet, because its successor must not run at the same time.
    """
    cap = max(options.grace_period_s, 0 if options.allow_zero_grace else 1)
    grace = min(own_grace_period_s(pod), cap)
    return max(grace, 1) if is_controlled_by(pod, "StatefulSet") else grace


def grace_period_violation(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    """Return a reason for a pod whose own grace period is longer than the maximum grace period of victims."""
    if not options.allow_short_grace and own_grace_period_s(pod) > options.grace_period_s:
        return _grace_too_long(options.grace_period_s)
    return None


@lru_cache(maxsize=16)
def _grace_too_long(cap_s: int) -> Reason:
    text = f"its own grace period is longer than grace_period, {cap_s} s: raise grace_period, or set allow_short_grace"
    return Reason(GRACE_TOO_LONG, text)
