# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Which pods may make room for a pod, and what keeps the others where they are."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection

from ..model.objects import Pod
from ..model.reasons import Reason
from .budgets import Budgets
from .critical import effective_priority, is_protected
from .options import RescueOptions

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DEFAULT_GRACE_PERIOD_S = 30
"""What the API server gives to pods that ask for no grace period."""

TERMINATING = Reason("terminating", "it is on its way out already")
NOT_BOUND = Reason("not_bound", "it has yet to come to the node")
STATIC = Reason("static", "the kubelet runs it from a file")
DAEMON_SET = Reason("daemon_set", "its DaemonSet would start it on the same node again")
SAME_OWNER = Reason("same_owner", "it has the same controller as the pod that needs the room")
HIGHER_PRIORITY = Reason("higher_priority", "its priority is higher")
NOT_SAFE_TO_EVICT = Reason("not_safe_to_evict", f'it is annotated {SAFE_TO_EVICT_ANNOTATION}: "false"')
CRITICAL = Reason("critical", "it is critical itself; allow_equal_priority would allow it")
EQUAL_PRIORITY = Reason("equal_priority", "its priority is the same; allow_equal_priority would allow it")
BARE = Reason("bare_pod", "no controller would start it elsewhere; allow_bare_pods would allow it")
LOCAL_STORAGE = Reason("local_storage", "it keeps data on the node; allow_local_storage would allow it")
BANNED = Reason("banned", "it may not be evicted this time")
GRACE_TOO_LONG = "grace_too_long"


class EvictionRules:
    """Who may go for one pod, by its options. What the budgets say counts as it is when asked.

    ``banned``: uids of pods that may not go now.
    """

    def __init__(self, pod: Pod, options: RescueOptions, budgets: Budgets, banned: Collection[str] = frozenset()) -> None:
        self._options = options
        self._budgets = budgets
        self._banned = frozenset(banned)
        self._priority = effective_priority(pod, options)
        controller = pod.metadata.controller
        self._owner = controller.uid if controller is not None else None
        self._grace_too_long = Reason(
            GRACE_TOO_LONG,
            f"its grace period is longer than grace_period, {options.grace_period} s; allow_short_grace would cut it",
        )
        # Siblings share these parts, so that the rules are gone through once for them. The pod is kept, so that no other part gets an id.
        self._known: dict[tuple[t.Any, ...], tuple[Pod, t.Optional[Reason], int]] = {}

    def immunity(self, pod: Pod) -> t.Optional[Reason]:
        """Why the pod, which runs on a node, may not be evicted, budgets included; None where it may."""
        return self.standing(pod)[0]

    def standing(self, pod: Pod) -> tuple[t.Optional[Reason], int]:
        """``immunity``, and the priority that counts."""
        metadata, spec = pod.metadata, pod.spec
        key = (
            metadata.namespace,
            id(metadata.annotations),
            id(metadata.owner_references),
            metadata.deletion_timestamp is None,
            id(spec.volumes),
            spec.node_name == "",
            spec.priority,
            spec.priority_class_name,
            spec.termination_grace_period_seconds,
        )
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (pod, self._by_rules(pod), effective_priority(pod, self._options))
        if metadata.uid in self._banned:
            return BANNED, known[2]
        return known[1] or self._budgets.forbids(pod), known[2]

    def _by_rules(self, pod: Pod) -> t.Optional[Reason]:
        """The first reason that holds: those that no option changes come first."""
        options = self._options
        priority = effective_priority(pod, options)
        fixed = next((reason for reason, applies in _NEVER if applies(pod)), None)
        if fixed is not None:
            return fixed
        controller = pod.metadata.controller
        if controller is not None and controller.uid == self._owner:
            return SAME_OWNER
        if priority > self._priority:
            return HIGHER_PRIORITY
        if (pod.metadata.annotations or {}).get(SAFE_TO_EVICT_ANNOTATION) == "false":
            return NOT_SAFE_TO_EVICT
        return self._by_options(pod, priority)

    def _by_options(self, pod: Pod, priority: int) -> t.Optional[Reason]:
        options = self._options
        if not options.allow_equal_priority and is_protected(pod, options):
            return CRITICAL
        if not options.allow_equal_priority and priority == self._priority:
            return EQUAL_PRIORITY
        if not options.allow_bare_pods and pod.metadata.controller is None:
            return BARE
        if not options.allow_local_storage and any(volume.local for volume in pod.spec.volumes or ()):
            return LOCAL_STORAGE
        if not options.allow_short_grace and own_grace(pod) > options.grace_period:
            return self._grace_too_long
        return None


def own_grace(pod: Pod) -> int:
    """The whole seconds that the pod asks for to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_PERIOD_S if seconds is None else seconds


def grace_of(pod: Pod, options: RescueOptions) -> int:
    """The whole seconds that the pod gets to end; never 0 for a StatefulSet's, whose successor must not run beside it."""
    cap = max(options.grace_period, 0 if options.force else 1)
    grace = min(own_grace(pod), cap)
    return max(grace, 1) if _controlled_by(pod, "StatefulSet") else grace


def _is_static(pod: Pod) -> bool:
    return MIRROR_ANNOTATION in (pod.metadata.annotations or {}) or any(
        owner.kind == "Node" for owner in pod.metadata.owner_references or ()
    )


def _controlled_by(pod: Pod, kind: str) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.kind == kind


_NEVER: tuple[tuple[Reason, Callable[[Pod], bool]], ...] = (
    (NOT_BOUND, lambda pod: not pod.spec.node_name),
    (TERMINATING, lambda pod: pod.terminating),
    (STATIC, _is_static),
    (DAEMON_SET, lambda pod: _controlled_by(pod, "DaemonSet")),
)
