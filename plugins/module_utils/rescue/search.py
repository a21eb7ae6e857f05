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

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import PASSED, Reason, Reasons
from ..scheduler.cluster_state import ClusterState
from ..scheduler.eligibility import static_filters
from ..scheduler.filter_cache import static_signature
from ..scheduler.filters.node_affinity import named_nodes, required_node_affinity
from ..scheduler.node_info import PodLoad
from ..scheduler.profile import DEFAULT_PROFILE, DEFAULT_PROFILES, Profiles
from ..state.hold import Hold
from .blockers import Blockade
from .budgets import Budgets
from .cost import VictimCosts
from .critical import effective_priority
from .occupants import Demand, Occupants
from .options import RescueOptions
from .plan import Blocker, Choice, Victim
from .prospect import Key, Means, Prospect
from .reach import Reaches
from .residents import Resident
from .returning import Returning
from .trial import Trial
from .victims import EvictionRules, Importance, grace_of

NODE_NOT_READY: Reasons = (Reason("node_not_ready", "node(s) were not ready: evictions there would not end"),)


class VictimSearch:
    """The search for one pod in a placement, which stays as it is.

    ``budgets``: what is left of them; the victims' share is not taken. ``banned``: uids of pods that may not be victims now. ``held``: the
    holds by node name. ``reaches``: what earlier searches have worked out of the nodes.
    Raises QuantityError, which names the object.
    """

    def __init__(
        self,
        pod: Pod,
        placement: ClusterState,
        options: RescueOptions,
        *,
        budgets: Budgets,
        profiles: Profiles = DEFAULT_PROFILES,
        banned: Collection[str] = frozenset(),
        held: t.Optional[Mapping[str, Hold]] = None,
        reaches: t.Optional[Reaches] = None,
    ) -> None:
        self._pod = pod
        self._placement = placement
        self._options = options
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        self._static = static_filters(pod, profile)
        # By the name of the node: the answers of ``closed``. A pod that is tied to nodes by name shares them with no other.
        named = named_nodes(required_node_affinity(pod)) is not None
        self._known_closed = {} if named else placement.static_rejections((static_signature(pod), profile))
        self._demand = Demand(pod, placement, profiles)
        self._reach = (reaches or Reaches()).of(Importance.of(pod, options), options, placement, budgets)
        # By the name of each node that has room: the answer of ``within_reach``.
        self._reached: t.Optional[dict[str, bool]] = None
        costs = VictimCosts(placement, options, profiles)
        self._rules = EvictionRules(pod, options, budgets, banned, Returning(pod, placement.snapshot.nodes, options, costs, held or {}))
        self._means = Means(options, budgets, costs, Trial(pod, placement, profiles))

    @property
    def unknown(self) -> Reasons:
        """What of the pod cannot be judged on any node."""
        return self._means.trial.unknown

    def feasible(self, node_names: t.Iterable[str]) -> t.Sequence[str]:
        """Those of the nodes on which the pod fits as things are."""
        return self._means.trial.feasible(node_names)

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
        """Those of the nodes, in order, that are not surely out whichever pods leave them.

        The pod fits on no other node, with evictions or without. The others have enough room once all have left that priorities, options
        and budgets let go, and neither the static rules, nor host ports, nor rules about other nodes keep them closed then.
        """
        if self._reached is None:
            roomy = self._reach.nodes_with(self._demand.asked)
            self._reached = {name: self._can_reach(name) for name in self._placement.in_order(roomy)}
        wanted = None if node_names is None else set(node_names)
        return [name for name, open_ in self._reached.items() if open_ and (wanted is None or name in wanted)]

    def _can_reach(self, name: str) -> bool:
        closed = self._closed(name)
        if closed and closed is not NODE_NOT_READY:
            return False
        leaving = self._reach.leaving(name)
        return not self._demand.ports_stay_taken(self._placement.info(name), leaving) and not self._means.trial.shuts(name, leaving)

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
