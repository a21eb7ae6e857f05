# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules by which a Lease has one holder at a time (as client-go ``tools/leaderelection``). Times are those of the API server."""

from __future__ import annotations

import typing as t

from ..model.records import LeaseSpec
from ..model.timestamps import format_micro_time, parse_time

RELEASED_FOR_S = 1
DEFAULT_DURATION_S = 15
"""Of a Lease that does not say how long it lasts."""


def may_take(spec: LeaseSpec, identity: str, *, now_s: float, unchanged_for_s: float = 0.0) -> bool:
    """Nobody else holds it: it has no holder, or this one, or it ended without being renewed.

    ``now_s``: seconds since the epoch. ``unchanged_for_s``: how long the caller has seen it as it is. That decides where its times cannot
    be read or lie in the future, because the clock was set back.
    """
    if not spec.holder_identity or spec.holder_identity == identity:
        return True
    duration_s = spec.lease_duration_seconds or DEFAULT_DURATION_S
    renewed_s = _renewed_s(spec)
    if renewed_s is not None and renewed_s + duration_s < now_s:
        return True
    return unchanged_for_s > duration_s


def taken(before: t.Optional[LeaseSpec], identity: str, *, now_s: float, duration_s: int) -> LeaseSpec:
    """The Lease as its holder writes it, to take or to renew it; ``before`` is None where it does not exist yet."""
    now = format_micro_time(now_s)
    own = before is not None and before.holder_identity == identity
    transitions = before.lease_transitions or 0 if before is not None else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=duration_s,
        acquire_time=(before.acquire_time if own and before is not None else None) or now,
        renew_time=now,
        lease_transitions=transitions if own or before is None else transitions + 1,
    )


def released(before: LeaseSpec, *, now_s: float) -> LeaseSpec:
    """The Lease as its holder leaves it: free at once."""
    now = format_micro_time(now_s)
    return LeaseSpec(
        holder_identity=None,
        lease_duration_seconds=RELEASED_FOR_S,
        acquire_time=now,
        renew_time=now,
        lease_transitions=before.lease_transitions or 0,
    )


def as_patch(spec: LeaseSpec) -> dict[str, t.Any]:
    """The spec of a merge patch: what is None is taken away."""
    return {
        "holderIdentity": spec.holder_identity,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": spec.acquire_time,
        "renewTime": spec.renew_time,
        "leaseTransitions": spec.lease_transitions,
    }


def _renewed_s(spec: LeaseSpec) -> t.Optional[float]:
    try:
        return parse_time(spec.renew_time or "")
    except ValueError:
        return None
