# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The evictions that the first plan for a node allows. Later plans on the node must keep within them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...rescue.plan import Choice
from ...rescue.plan_reasons import pod_names


@dataclass(frozen=True)
class PlanLimit:
    """The limit of a plan on one node.

    ``initial_pods``: the uids of the pods on the node at the start; None before the first plan. ``victims``: the uids of the pods that may
    be evicted. ``is_confirmed``: a plan has kept within the limit while the node was held.
    """

    node: str = ""
    initial_pods: t.Optional[frozenset[str]] = None
    victims: frozenset[str] = frozenset()
    is_confirmed: bool = False

    def violation(self, choice: Choice, pods: Sequence[Pod], pod_uid: str) -> t.Optional[Reason]:
        """Return the reason to give up the node if more pods than planned would have to be evicted. None otherwise.

        If a planned victim may not be evicted any more, another pod may take its place, but the number of victims does not grow. If new
        pods have used the capacity, no pod is evicted instead. Otherwise evictions could continue until the node is empty. ``pods``: the
        pods on the node now. ``pod_uid``: the pod that needs the capacity.
        """
        further = self._unplanned(choice)
        if not further or self.initial_pods is None:
            return None
        came = [pod for pod in _staying(pods) if pod.metadata.uid not in self.initial_pods and pod.metadata.uid != pod_uid]
        if came:
            return Reason("capacity_taken", f"the freed capacity of the node was taken by {pod_names(came)}")
        if len(further) > len(self._spared(choice, pods)):
            return Reason("more_than_planned", f"{pod_names(further)} would have to be evicted in addition to the plan")
        return None

    def with_replaced(self, choice: Choice, pods: Sequence[Pod]) -> PlanLimit:
        """Return the limit that allows the victims of this plan in place of as many others. ``pods``: the pods on the node now."""
        further = {pod.metadata.uid for pod in self._unplanned(choice)}
        victims = self.victims.difference(self._spared(choice, pods)[: len(further)]).union(further)
        return replace(self, victims=victims, is_confirmed=True)

    def _unplanned(self, choice: Choice) -> list[Pod]:
        """Return the victims of this plan that the limit does not allow, in the order of their uids."""
        further = (victim.pod for victim in choice.victims if victim.pod.metadata.uid not in self.victims)
        return sorted(further, key=lambda pod: pod.metadata.uid)

    def _spared(self, choice: Choice, pods: Sequence[Pod]) -> list[str]:
        """Return the sorted uids of the allowed victims on the node that this plan does not have."""
        wanted = {victim.pod.metadata.uid for victim in choice.victims}
        staying = {pod.metadata.uid for pod in _staying(pods)}
        return sorted(uid for uid in staying if uid in self.victims and uid not in wanted)


NO_LIMIT = PlanLimit()


def limit_of(choice: Choice, pods: Sequence[Pod]) -> PlanLimit:
    """Return the limit that allows only the evictions of this plan. ``pods``: the pods on the node now."""
    victims = frozenset(victim.pod.metadata.uid for victim in choice.victims)
    return PlanLimit(choice.node, frozenset(pod.metadata.uid for pod in pods), victims)


def _staying(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not (pod.terminating or pod.terminal)]
