# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""All eviction rules in their order: those about a pod alone, which are stored with its node, and those for one pod that needs capacity."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...model.api.pod import Pod, mounts_claims
from ...model.budgets.ledger import BudgetKey, PdbLedger, budget_status_key
from ...model.reason import Reason
from ...model.snapshot import owner_key
from ...model.values.timestamps import read_time
from ...scheduler.node_info import NodeInfo, PodLoad
from ...scheduler.pod_requests import CPU
from ..critical import effective_priority, is_critical_or_system
from ..options import RescueOptions
from ..victims.node_pod import NodePod, Preemptor
from ..victims.pod_traits import is_controlled_by, is_in_gang
from .bare_pod import bare_pod_violation
from .budget import budget_violation
from .critical import CRITICAL, critical_violation
from .daemon_set import daemon_set_violation
from .equal_priority import EQUAL_PRIORITY, equal_priority_violation
from .excluded import excluded_violation
from .grace_period import grace_period_violation
from .higher_priority import higher_priority_violation
from .local_storage import local_storage_violation
from .not_on_node import not_on_node_violation
from .not_safe_to_evict import NOT_SAFE_TO_EVICT, not_safe_to_evict_violation
from .pod_outside_window import MaintenanceWindows, pod_outside_window_violation
from .rescued_before import rescued_before_violation
from .same_controller import same_controller_violation
from .static_pod import static_pod_violation
from .terminating import terminating_violation
from .undecodable import undecodable_violation
from .would_preempt import would_preempt_violation
from .would_return import ReturnCheck, would_return_violation

_OPTIONAL = (CRITICAL, EQUAL_PRIORITY)

# --- rules about a pod alone ---


def node_pod_of(pod: Pod, load: PodLoad, options: RescueOptions) -> NodePod:
    """Return the data of the pod that count with these options."""
    metadata = pod.metadata
    return NodePod(
        pod,
        load,
        effective_priority(pod, options),
        is_critical_or_system(pod, options),
        fixed_violation(pod),
        options_violation(pod, options),
        owner_key(pod),
        pod.ready and not pod.terminating and not pod.terminal,
        -int(read_time(metadata.creation_timestamp) or 0),
        (metadata.namespace, metadata.name),
        is_in_gang(pod) or is_controlled_by(pod, "Job") or mounts_claims(pod),
        budget_status_key(pod),
    )


def fixed_violation(pod: Pod) -> t.Optional[Reason]:
    """Return the first reason that forbids the eviction of the pod and that no option changes. Return None if there is none."""
    return (
        undecodable_violation(pod)
        or not_on_node_violation(pod)
        or terminating_violation(pod)
        or static_pod_violation(pod)
        or daemon_set_violation(pod)
    )


def options_violation(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    """Return the first reason of the pod's annotations or of these options that forbids its eviction. Return None if there is none."""
    return (
        not_safe_to_evict_violation(pod)
        or bare_pod_violation(pod, options)
        or local_storage_violation(pod, options)
        or grace_period_violation(pod, options)
    )


class NodePods(t.NamedTuple):
    """The pods bound to a node.

    ``evictable``: the pods without a fixed violation and without an options violation; the lowest priority comes first, then the least cpu.
    """

    options: RescueOptions
    all_pods: tuple[NodePod, ...]
    evictable: tuple[NodePod, ...]


def pods_of_node(info: NodeInfo, options: RescueOptions) -> NodePods:
    """Return the pods of the node with these options. They are stored with the node while nothing changes on it.

    ``max_victims`` does not affect the result.
    """
    noted = info.planner_cache
    if isinstance(noted, NodePods) and _protect_the_same(noted.options, options):
        return noted
    name = info.node.metadata.name
    everybody = tuple(node_pod_of(pod, load, options) for pod, load in info.pods.values() if pod.spec.node_name == name)
    movable = [node_pod for node_pod in everybody if node_pod.fixed_violation is None and node_pod.options_violation is None]
    movable.sort(key=lambda node_pod: (node_pod.priority, node_pod.load.requests.get(CPU, 0)))
    found = info.planner_cache = NodePods(options, everybody, tuple(movable))
    return found


def _protect_the_same(some: RescueOptions, others: RescueOptions) -> bool:
    return some is others or some == others or replace(some, max_victims=others.max_victims) == others


# --- rules for one pod that needs capacity ---


def preemptor_of(pod: Pod, options: RescueOptions) -> Preemptor:
    """Return the priorities of the pod that needs the capacity."""
    return Preemptor(effective_priority(pod, options), pod.spec.priority or 0, options.allow_equal_priority)


def priority_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return the first reason about priorities that forbids the eviction of the pod for this preemptor. Return None if there is none."""
    if node_pod.priority < preemptor.priority <= preemptor.spec_priority and not node_pod.protected:
        return None  # true for most pods, so it is checked first
    return (
        higher_priority_violation(node_pod, preemptor)
        or would_preempt_violation(node_pod, preemptor)
        or critical_violation(node_pod, preemptor)
        or equal_priority_violation(node_pod, preemptor)
    )


@dataclass
class EvictionFilter:
    """The eviction rules for one pod, by its options. Budgets count in their state at the time of the call.

    ``excluded_victims``: uids of pods that may not be evicted now. ``return_check``: checks whether a replacement would use the capacity
    again. ``windows``: the maintenance windows, if the options respect them. ``rescued``: uids of pods that were rescued a short time ago.
    """

    pod: Pod
    options: RescueOptions
    budgets: PdbLedger
    excluded_victims: frozenset[str] = frozenset()
    return_check: t.Optional[ReturnCheck] = None
    windows: t.Optional[MaintenanceWindows] = None
    rescued: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._preemptor = preemptor_of(self.pod, self.options)
        self._owner = owner_key(self.pod)

    def eviction_violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return the reason why the pod may not be evicted, budgets included. Return None if it may.

        A reason that no option changes comes before one that an option changes. Reasons that change by themselves come last.
        """
        if node_pod.fixed_violation is not None:
            return node_pod.fixed_violation
        for_pod = (
            same_controller_violation(node_pod, self._owner)
            or priority_violation(node_pod, self._preemptor)
            or would_return_violation(node_pod, self.return_check)
        )
        if for_pod is not None and for_pod not in _OPTIONAL:
            return for_pod
        if node_pod.options_violation is NOT_SAFE_TO_EVICT:
            return NOT_SAFE_TO_EVICT
        return for_pod or node_pod.options_violation or self._passing_violation(node_pod) or budget_violation(node_pod, self.budgets)

    def evictable_pods(self, allowed: Sequence[tuple[NodePod, t.Optional[BudgetKey]]]) -> Sequence[tuple[NodePod, t.Optional[BudgetKey]]]:
        """Return the pods that may be evicted, each with the budget that its eviction counts against.

        ``allowed``: pods that may be evicted by their own properties, the options, the priorities and the budgets.
        """
        return [one for one in allowed if self._further_violation(one[0]) is None]

    def _further_violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return the reason of the rules that do not follow from the properties of the pod, the options, the priorities or the budgets."""
        return (
            same_controller_violation(node_pod, self._owner)
            or would_return_violation(node_pod, self.return_check)
            or self._passing_violation(node_pod)
        )

    def _passing_violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return the reason of a rule whose result changes by itself."""
        return (
            pod_outside_window_violation(node_pod.pod, self.windows)
            or rescued_before_violation(node_pod, self._preemptor, self.rescued)
            or excluded_violation(node_pod, self.excluded_victims)
        )
