# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How the room that is made for a pod is kept for it, or why it cannot be."""

from __future__ import annotations

import typing as t

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reason
from ..scheduler.filters.taint_toleration import tolerates
from ..state.hold import NO_SCHEDULE, Hold, hold_taint, is_foreign_taint
from .options import NONE, TAINT, RescueOptions
from .plan import BY_NOMINATION, BY_TAINT, Victim


class HoldPolicy(t.NamedTuple):
    """``hold_method``: as in a RescuePlan; ``violation``: why the room could not be kept, so that it must not be made.

    ``needs_quiet_cluster``: the room has to come free in one piece, while no other pod of the cluster ends. After each failed attempt at
    the pod the scheduler clears the nomination, and each end of a pod causes an attempt.
    """

    hold_method: t.Optional[str] = None
    violation: t.Optional[Reason] = None
    needs_quiet_cluster: bool = False


def hold_policy(pod: Pod, node: Node, victims: t.Sequence[Victim], options: RescueOptions, held_by: t.Optional[Hold] = None) -> HoldPolicy:
    """How the node is kept for the pod while the victims leave and the scheduler comes round; ``held_by``: the hold on the node."""
    if has_permanent_taint(node, options.hold_taint_key, held_by):
        return HoldPolicy()
    if options.hold == NONE:
        return HoldPolicy(BY_NOMINATION)
    if tolerates_hold(pod, options):
        return HoldPolicy(BY_TAINT)
    if options.hold != TAINT and len(victims) <= 1 and all(respects_nomination(victim.pod, pod) for victim in victims):
        return HoldPolicy(BY_NOMINATION, needs_quiet_cluster=True)
    return HoldPolicy(violation=no_toleration_violation(pod, options.hold_taint_key))


def respects_nomination(victim: Pod, pod: Pod) -> bool:
    """What replaces the victim has to respect a nomination of the pod.

    It is less important for the scheduler, which knows nothing of the annotation that makes a pod critical; and it has the same scheduler,
    because each knows only the nominations of its own pods.
    """
    return (victim.spec.priority or 0) < (pod.spec.priority or 0) and victim.spec.scheduler_name == pod.spec.scheduler_name


def tolerates_hold(pod: Pod, options: RescueOptions) -> bool:
    """The pod could still be scheduled to a node that is held for it."""
    return tolerates(pod.spec.tolerations or (), hold_taint(pod, options.hold_taint_key))


def has_permanent_taint(node: Node, key: str, held_by: t.Optional[Hold]) -> bool:
    """A taint of that key is there for good: it does what a hold would, and the API allows no second one."""
    return any(is_foreign_taint(taint, key, held_by) for taint in node.spec.taints or ())


def no_toleration_violation(pod: Pod, key: str) -> Reason:
    """Why the room could not be kept, and what to do about that."""
    text = (
        f"the pod does not tolerate the taint {key}:{NO_SCHEDULE} that would keep the room for it, and without a taint only the room of "
        f"one single victim whose spec.priority is lower than that of the pod ({pod.spec.priority or 0}) and that has the same scheduler "
        f"is safe: add the toleration {{key: {key}, operator: Exists, effect: {NO_SCHEDULE}}} "
        f"to {'its template' if pod.metadata.controller is not None else 'the pod'}"
    )
    return Reason("no_toleration", text)
