# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The method and the duration of the hold of a node for a pod, or the reason why the node cannot be held."""

from __future__ import annotations

import typing as t

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reason
from ..scheduler.filters.taint_toleration import tolerates
from ..state.hold import NO_SCHEDULE, hold_taint, is_foreign_taint
from .nomination_alone import can_be_held
from .options import NONE, TAINT, RescueOptions
from .plan import BY_NOMINATION, BY_TAINT, Victim

NO_TOLERATION = "no_toleration"


class HoldPolicy(t.NamedTuple):
    """The result of ``hold_policy``.

    ``hold_method``: as in a RescuePlan. ``violation``: the reason why the capacity cannot be held, so that no pod may be evicted for it.
    ``needs_quiet_cluster``: the capacity must become free in one piece, while no other pod of the cluster ends. Each pod that ends makes
    the scheduler try the critical pod again, and after a failed attempt it clears the nomination.
    """

    hold_method: t.Optional[str] = None
    violation: t.Optional[Reason] = None
    needs_quiet_cluster: bool = False


def hold_policy(pod: Pod, node: Node, victims: t.Sequence[Victim], options: RescueOptions) -> HoldPolicy:
    """Return the method that reserves the node for the pod, from the evictions until the scheduler binds the pod."""
    if has_permanent_taint(node, options.hold_taint_key):
        return HoldPolicy()
    if options.hold == NONE:
        return HoldPolicy(BY_NOMINATION)
    if tolerates_hold(pod, options):
        return HoldPolicy(BY_TAINT)
    if options.hold != TAINT and can_be_held(victims, pod):
        return HoldPolicy(BY_NOMINATION, needs_quiet_cluster=True)
    return HoldPolicy(violation=no_toleration_reason(pod, options.hold_taint_key))


def hold_duration_s(options: RescueOptions) -> int:
    """Return the seconds from the placement of a hold to its deadline: the wait for the scheduler, and the wait for refused evictions."""
    return options.wait_timeout_s + options.evict_timeout_s


def tolerates_hold(pod: Pod, options: RescueOptions) -> bool:
    """Return whether the pod can be scheduled to a node that is held for it by a taint."""
    return tolerates(pod.spec.tolerations or (), hold_taint(options.hold_taint_key))


def has_permanent_taint(node: Node, key: str) -> bool:
    """Return whether the node has a taint of this key that is not part of a hold.

    It rejects other pods as a hold does, and the API allows no second taint with the same key and effect.
    """
    return any(is_foreign_taint(taint, key) for taint in node.spec.taints or ())


def no_toleration_reason(pod: Pod, key: str) -> Reason:
    """Return the reason why the capacity cannot be held, with what to do about it."""
    text = (
        f"the pod does not tolerate the taint {key}:{NO_SCHEDULE} that would reserve the capacity for it. Without the taint, only the "
        f"capacity of a single victim can be reserved, which must have a lower spec.priority than the pod ({pod.spec.priority or 0}) and "
        f"the same scheduler: add the toleration {{key: {key}, operator: Exists, effect: {NO_SCHEDULE}}} "
        f"to {'its template' if pod.metadata.controller is not None else 'the pod'}"
    )
    return Reason(NO_TOLERATION, text)
