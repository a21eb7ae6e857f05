# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node and the victims that give a pod its place at the lowest cost.

Best first over the nodes: each has a lower bound of its cost, and only that of the cheapest is worked out further, until one is a cost that
the scheduler's rules have confirmed. What a cost is: ``cost.Cost``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heapreplace

from ..memory.hold import Hold
from ..model.objects import Node, Pod
from ..model.reasons import Reason
from ..scheduling.eligibility import static_checks, static_rules_of
from ..scheduling.node_info import PodLoad
from ..scheduling.placement import Placement
from ..scheduling.profile import STOCK, STOCK_PROFILES, Profiles
from ..scheduling.reasons import PASSED, Reasons
from ..scheduling.rules.node_affinity import named_nodes, required_affinity
from .blockers import Blockade
from .budgets import Budgets
from .cost import VictimCosts
from .critical import effective_priority
from .occupants import Demand, Occupants
from .options import RescueOptions
from .plan import Blocker, Choice, Victim
from .prospect import Key, Means, Prospect
from .residents import Resident
from .returning import Returning
from .trial import Trial
from .victims import EvictionRules, grace_of

NODE_NOT_READY: Reasons = (Reason("node_not_ready", "node(s) were not ready: evictions there would not end"),)


class VictimSearch:
    """The search for one pod in a placement, which stays as it is.

    ``budgets``: what is left of them; the victims' share is not taken. ``banned``: uids of pods that may not be victims now. ``held``: the
    holds by node name.
    Raises QuantityError, which names the object.
    """

    def __init__(
        self,
        pod: Pod,
        placement: Placement,
        options: RescueOptions,
        *,
        budgets: Budgets,
        profiles: Profiles = STOCK_PROFILES,
        banned: Collection[str] = frozenset(),
        held: t.Optional[Mapping[str, Hold]] = None,
    ) -> None:
        self._pod = pod
        self._placement = placement
        self._options = options
        profile = profiles.get(pod.spec.scheduler_name, STOCK)
        self._static = static_checks(pod, profile)
        # By the name of the node: the answers of ``closed``. A pod that is tied to nodes by name shares them with no other.
        named = named_nodes(required_affinity(pod)) is not None
        self._known_closed = {} if named else placement.closed_alike((static_rules_of(pod), profile))
        self._demand = Demand(pod, placement, profiles)
        self._priority = effective_priority(pod, options)
        # By the name of each node that was asked about: the answer of ``within_reach``.
        self._reached: dict[str, bool] = {}
        costs = VictimCosts(placement, options, profiles)
        self._rules = EvictionRules(pod, options, budgets, banned, Returning(pod, placement.snapshot.nodes, options, costs, held or {}))
        self._means = Means(options, budgets, costs, Trial(pod, placement, profiles))

    def best(self, node_names: t.Optional[Iterable[str]] = None) -> t.Optional[Choice]:
        """The cheapest choice, on any node or on those of ``node_names``; None where nothing that may be evicted makes the pod fit.

        A pod that fits as things are has no victims. Nothing is chosen for a pod of which something cannot be judged.
        """
        heap: list[tuple[Key, int, Prospect]] = []
        for position, name in enumerate(self.within_reach(node_names) if not self._means.trial.unknown else ()):
            if not self._closed(name):
                prospect = self._prospect(name)
                if prospect.refine():
                    heap.append((prospect.key, position, prospect))
        heapify(heap)
        while heap:
            _key, position, prospect = heap[0]
            if prospect.proved:
                return self._choice(prospect)
            if prospect.refine():
                heapreplace(heap, (prospect.key, position, prospect))
            else:
                heappop(heap)
        return None

    def within_reach(self, node_names: t.Optional[Iterable[str]] = None) -> list[str]:
        """Those of the nodes, in order, that the static rules open and that have room once all less important movable pods have left.

        The pod fits on no other node, with evictions or without. This quick answer is given for most nodes without looking at single pods.
        """
        reached = self._reached
        found: list[str] = []
        for name in self._placement.in_order(node_names):
            known = reached.get(name)
            if known is None:
                known = reached[name] = self._can_reach(name)
            if known:
                found.append(name)
        return found

    def _can_reach(self, name: str) -> bool:
        closed = self._closed(name)
        if closed and closed is not NODE_NOT_READY:
            return False
        return self._demand.can_fit(self._placement.info(name), self._options, self._priority)

    def blockers(self, node_names: t.Optional[Iterable[str]] = None) -> tuple[Blocker, ...]:
        """Why nothing is chosen on these nodes, for when ``best`` has found nothing there; what closes most nodes comes first.

        The scheduler's reasons where no eviction would help; where evictions would, what is still missing after them, and what keeps the
        other pods where they are (the codes of ``victims``), of which options may change some.
        """
        blockade = Blockade(self._placement, self._rules, self._means)
        for name in self._placement.in_order(node_names):
            closed = self._means.trial.unknown or self._closed(name)
            if closed:
                blockade.add_closed(closed)
            else:
                blockade.add(name, self._occupants)
        return blockade.blockers()

    def immunity_of(self, victim: Pod) -> t.Optional[Reason]:
        """Why this pod of some node may not be evicted, as it is given."""
        return self._rules.immunity_of(Resident.of(victim, PodLoad.of(victim), self._options))

    def closed(self, node: Node) -> Reasons:
        """What closes the node, as it is given, to the pod, whatever runs there."""
        for check in self._static:
            reasons = check(node)
            if reasons:
                return reasons
        return PASSED if node.ready else NODE_NOT_READY

    def _closed(self, name: str) -> Reasons:
        """As ``closed``, about the node as the snapshot has it."""
        known = self._known_closed.get(name)
        if known is None:
            known = self._known_closed[name] = self.closed(self._placement.snapshot.nodes[name])
        return known

    def _occupants(self, name: str) -> Occupants:
        return self._demand.occupants(self._placement.info(name), self._rules, self._options)

    def _prospect(self, name: str) -> Prospect:
        return Prospect(name, self._occupants(name), self._means)

    def _choice(self, prospect: Prospect) -> Choice:
        victims = (
            Victim(pod, effective_priority(pod, self._options), self._reason(pod), grace_of(pod, self._options)) for pod in prospect.victims
        )
        return Choice(prospect.node_name, tuple(victims))

    def _reason(self, pod: Pod) -> Reason:
        priority, own = effective_priority(pod, self._options), effective_priority(self._pod, self._options)
        compared = f"its priority {priority} is below {own}" if priority < own else f"its priority is {own}, too"
        costs = self._means.costs
        home = "has no room elsewhere now" if costs.is_homeless(pod) else "fits on another node now"
        stays = costs.stays(costs.resident(pod))
        siblings = f"{stays} other ready pod{'' if stays == 1 else 's'} of its controller"
        return Reason("lower_priority" if priority < own else "equal_priority", f"{compared}; its replacement {home}; {siblings}")
