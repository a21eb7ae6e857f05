# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules that give a Lease at most one holder at a time, as in client-go ``tools/leaderelection``.

Only the clock of the caller decides whether a Lease has expired, so a clock skew between machines has no effect. The times in a Lease come
from an API server and are for people.
"""

from __future__ import annotations

import typing as t

from ..model.api.coordination import LeaseSpec
from ..model.values.timestamps import format_micro_time

RELEASED_FOR_S = 1
DEFAULT_DURATION_S = 15
"""The duration of a Lease that does not define one."""


def can_acquire(spec: LeaseSpec, identity: str, *, unchanged_for_s: float) -> bool:
    """Return true if the Lease is free, has this holder, or was not renewed by its holder for its whole duration.

    ``unchanged_for_s``: the seconds since the caller first saw this spec, by the caller's own monotonic clock. A holder changes the spec
    with each renewal. ``renewTime`` is not used, because another API server may have another clock. A Lease is free if it never had a
    holder, or if its holder has released it. If only the holder was removed from it, the former holder may still act.
    """
    if spec.holder_identity == identity or is_free(spec):
        return True
    return unchanged_for_s > duration_of(spec)


def is_free(spec: LeaseSpec) -> bool:
    """Return whether the Lease never had a holder, or its holder has released it."""
    return not spec.holder_identity and (spec.lease_duration_seconds or 0) <= RELEASED_FOR_S


def duration_of(spec: LeaseSpec) -> int:
    """Return the seconds for which the Lease is valid without a renewal."""
    return spec.lease_duration_seconds or DEFAULT_DURATION_S


def acquired_spec(before: t.Optional[LeaseSpec], identity: str, *, now_s: float, duration_s: int) -> LeaseSpec:
    """Return the spec that a holder writes to acquire or renew the Lease. ``before`` is None if the Lease does not exist yet."""
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


def released_spec(before: LeaseSpec, *, now_s: float) -> LeaseSpec:
    """Return the spec that a holder writes to release the Lease. The Lease is free immediately."""
    now = format_micro_time(now_s)
    return LeaseSpec(
        holder_identity=None,
        lease_duration_seconds=RELEASED_FOR_S,
        acquire_time=now,
        renew_time=now,
        lease_transitions=before.lease_transitions or 0,
    )


def lease_patch(spec: LeaseSpec) -> dict[str, t.Any]:
    """Return the spec of a merge patch. None removes a field."""
    return {
        "holderIdentity": spec.holder_identity,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": spec.acquire_time,
        "renewTime": spec.renew_time,
        "leaseTransitions": spec.lease_transitions,
    }
