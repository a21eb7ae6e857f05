# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Decides what is to be done for each critical pod that the scheduler has found no node for.

The order of the questions follows from why a pod is pending: evictions cure only a lack of capacity.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import UNDECODABLE, undecodable_of
from ..scheduler.cluster_state import ClusterState
from ..scheduler.feasibility import FilterRunner
from ..scheduler.profile import DEFAULT_PROFILE, DEFAULT_PROFILES, Profiles
from ..scheduler.unknowns.pod import undecodable_pod_reason
from ..state.hold import Hold
from .budgets import Budgets
from .hold_rule import HoldRule, hold_rule, keeps_others_off, leaves_room, no_toleration, tolerates_hold
from .leaving import is_preempted, leaving_pods
from .options import RescueOptions
from .plan import BY_NOMINATION, IMPOSSIBLE, PLANNED, WAITING, Blocker, Choice, Judgement
from .reach import Reaches
from .search import VictimSearch

NO_NODE = "no_node"
ROOM_BECOMING_FREE = "room_becoming_free"
OTHERS_ENDING = "others_ending"
UNEXPLAINED = Reason(NO_NODE, "no eviction makes a node fit")
HELD = Reason("held_for_another", "node(s) are being cleared for another critical pod")


class Facts(t.NamedTuple):
    """What is known of a pod beside the snapshot.

    ``scheduler``: why its scheduler counts as not running, or None. ``excluded``: nodes that were tried in vain. ``banned``: uids of pods
    whose eviction the server has refused. ``evicted``: how many pods have been evicted for it already. ``aside``: what else the reason has
    to say. ``nominated``: the rescue has nominated the pod itself. ``patient``: capacity that other terminating pods free soon counts as
    free. It ends, so that nobody can delay a rescue by one terminating pod after the other. ``awaits_others``: terminating pods of others
    are awaited where a nomination alone would keep the capacity. That ends, too. ``promised``: the node for which the pod is
    nominated; the planner fills it in.
    """

    scheduler: t.Optional[Reason] = None
    excluded: frozenset[str] = frozenset()
    banned: frozenset[str] = frozenset()
    evicted: int = 0
    aside: str = ""
    nominated: bool = False
    patient: bool = True
    awaits_others: bool = True
    promised: str = ""


class RescuePlanner:
    """Plans on one snapshot. What is reserved for one pod is taken into account for those that come after it.

    ``in_use``: the nodes that are being cleared, by the uid of the pod for which. ``held``: the holds by node name. ``evicted``: the
    seconds that are left of the grace period of each pod that this program has evicted, by uid. ``earlier``: the planner of an earlier
    snapshot, which is not to be asked any more: what has not changed since is not worked out again.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        options: RescueOptions,
        *,
        now_s: float,
        in_use: t.Optional[dict[str, str]] = None,
        held: t.Optional[Mapping[str, Hold]] = None,
        evicted: t.Optional[Mapping[str, float]] = None,
        earlier: t.Optional[RescuePlanner] = None,
    ) -> None:
        self.placement: ClusterState = ClusterState.of(snapshot, earlier.placement if earlier is not None else None)
        self._reaches: Reaches = earlier._reaches if earlier is not None else Reaches()
        self._snapshot, self._options = snapshot, options
        self._held = held or {}
        self._in_use = {**{name: hold.uid for name, hold in self._held.items()}, **(in_use or {})}
        self._leaving = leaving_pods(snapshot, now_s, grace_period_s=options.grace_period, evicted=evicted)
        self._evicted = frozenset(evicted or ())
        self._budgets = Budgets(snapshot)
        for pods in self._leaving.soon.values():
            for pod in pods:
                self.placement.remove(pod)

    def is_in_use_for(self, pod_uid: str) -> bool:
        """Some node is being cleared or held for the pod."""
        return pod_uid in self._in_use.values()

    def judge(self, pod: Pod, facts: Facts, *, explain: bool = True) -> Judgement:
        """What is to be done for the pod now, on whatever node.

        Without ``explain`` nothing is worked out that only tells why no eviction helps: the judgement has no blockers then.
        """
        undecodable = undecodable_of(pod)
        if undecodable is not None:
            return Judgement(pod, IMPOSSIBLE, undecodable.reason)
        facts = facts._replace(promised=pod.status.nominated_node_name)
        facts, promised = self._beside_a_preemption(pod, facts)
        if promised is not None:
            return promised
        if facts.scheduler is not None:
            return Judgement(pod, IMPOSSIBLE, facts.scheduler)
        return self._judge_on(pod, facts, None, explain=explain)

    def judge_on(self, pod: Pod, node_name: str, facts: Facts) -> Judgement:
        """What is still to be done on the node that is being cleared for the pod; WAITING where it has come by another one meanwhile."""
        undecodable = undecodable_of(pod)
        if undecodable is not None:
            return Judgement(pod, IMPOSSIBLE, undecodable.reason)
        facts = facts._replace(promised=pod.status.nominated_node_name)
        if not (facts.nominated and pod.status.nominated_node_name == node_name):
            promised = self._beside_a_preemption(pod, facts)[1]
            if promised is not None:
                return promised
        if facts.scheduler is not None:
            return _waiting(pod, facts.scheduler.code, facts.scheduler.text)
        feasible = self._judge(pod, facts).feasibility(self._candidates(pod, facts, None)).feasible
        if feasible:
            return self._fits(pod, feasible, facts)
        return self._judge_on(pod, facts, (node_name,))

    def objections(self, pod: Pod, victim: Pod, node: Node, facts: Facts) -> tuple[t.Optional[Reason], t.Optional[Reason]]:
        """Why the victim may not be evicted for the pod, and why the node is closed to the pod, both as they are given here."""
        search = self._search(pod, facts, self._options)
        closed = search.closed(node)
        return search.immunity_of(victim), closed[0] if closed else None

    def reserve(self, judgement: Judgement) -> bool:
        """The plan will be carried out: its node, its room and what its victims take from their budgets are no longer there.

        False, and nothing is reserved, where the node or a victim is gone.
        """
        choice = judgement.choice
        if choice is None or choice.node not in self._snapshot.nodes:
            return False
        there = {pod.metadata.uid for pod in self._snapshot.pods_by_node.get(choice.node, ())}
        if not there.issuperset(victim.pod.metadata.uid for victim in choice.victims):
            return False
        for victim in choice.victims:
            self.placement.remove(victim.pod)
        self._budgets.take([victim.pod for victim in choice.victims])
        self.placement.assign(judgement.pod, choice.node)
        self._in_use[choice.node] = judgement.pod.metadata.uid
        return True

    # --- why it is pending ---

    def _beside_a_preemption(self, pod: Pod, facts: Facts) -> tuple[Facts, t.Optional[Judgement]]:
        """The pod is nominated for a node: wait if it fits there, or leave that node alone where the scheduler's own victims do not end."""
        name = pod.status.nominated_node_name
        if not name or name not in self._snapshot.nodes or name in facts.excluded:
            return facts, None
        if self._judge(pod, facts).feasibility((name,)).feasible:
            why = "where pods are ending to make room for it" if self._soon_on(name, facts) else "and there is room"
            return facts, _waiting(pod, "preemption_under_way", f"it is nominated for node {name}{self._rescue_on(name, pod)}, {why}")
        staying = [other for other in self._leaving.staying.get(name, ()) if is_preempted(other)]
        if not staying:
            return facts, None
        aside = f"; the scheduler waits for node {name}, where {_names(staying)} should have ended or ends much later"
        return facts._replace(excluded=facts.excluded | {name}, aside=aside), None

    def _rescue_on(self, name: str, pod: Pod) -> str:
        """Whose rescue nominated the pod, where the node has a proved hold for it."""
        hold = self._held.get(name)
        if hold is None or hold.uid != pod.metadata.uid:
            return ""
        return f" by the rescue {hold.writer}, which holds the node"

    def _judge_on(self, pod: Pod, facts: Facts, names: t.Optional[Collection[str]], *, explain: bool = True) -> Judgement:
        search = self._search(pod, facts, self._options.after(facts.evicted))
        if search.unknown:
            return Judgement(pod, IMPOSSIBLE, _about(search.unknown[0]), blockers=_blockers_of(search.unknown))
        candidates = self._candidates(pod, facts, names)
        reached = search.within_reach(candidates)
        feasible = search.feasible(reached)
        if feasible:
            return self._fits(pod, feasible, facts)
        choice = search.best(reached)
        if choice is None:
            return self._nothing(pod, facts, candidates, search, others=names is None, explain=explain)
        rule = self._hold_rule(pod, choice)
        if rule.refusal is None and not (rule.at_once and self._ending(facts)):
            return _planned(pod, choice, facts.aside, kept_by=rule.kept_by)
        # The cheapest set cannot be held. Try the nodes first on which a foreign taint of this key keeps other pods off: they need no hold.
        key = self._options.hold_taint_key
        kept = [name for name in candidates if keeps_others_off(self._snapshot.nodes[name], key, self._held.get(name))]
        choice = search.best(kept) if kept else None
        if choice is not None:
            return _planned(pod, choice, facts.aside, kept_by=None)
        return self._at_once(pod, facts, candidates, rule.refusal)

    def _at_once(self, pod: Pod, facts: Facts, candidates: Collection[str], refusal: t.Optional[Reason]) -> Judgement:
        """One victim alone, while no other pod ends: a nomination keeps no capacity that becomes free in parts, or after a failed attempt.

        Each end of a pod in the cluster makes the scheduler try the pod. After a failed attempt it clears the nomination.
        """
        options = self._options.after(facts.evicted)
        most = 1 if options.max_victims is None else min(1, options.max_victims)
        hinder = (other.metadata.uid for other in self._snapshot.pods if other.spec.node_name and not leaves_room(other, pod))
        facts = facts._replace(banned=facts.banned.union(hinder))
        choice = self._allowed(pod, self._search(pod, facts, replace(options, max_victims=most)).best(candidates))
        if choice is None:
            refusal = refusal or no_toleration(pod, self._options.hold_taint_key)
            return Judgement(pod, IMPOSSIBLE, refusal, blockers=(Blocker(refusal, len(candidates)),))
        ending = self._ending(facts)
        if ending:
            return _waiting(pod, OTHERS_ENDING, _until_ended(ending, choice.node))
        return _planned(pod, choice, facts.aside, kept_by=BY_NOMINATION)

    def _allowed(self, pod: Pod, choice: t.Optional[Choice]) -> t.Optional[Choice]:
        """The choice, if the room that it makes can be kept for the pod."""
        return choice if choice is not None and self._hold_rule(pod, choice).refusal is None else None

    def _hold_rule(self, pod: Pod, choice: Choice) -> HoldRule:
        return hold_rule(pod, self._snapshot.nodes[choice.node], choice.victims, self._options, self._held.get(choice.node))

    def _nothing(
        self, pod: Pod, facts: Facts, candidates: Collection[str], search: VictimSearch, *, others: bool, explain: bool
    ) -> Judgement:
        """No eviction helps now; ``others``: a node that is being cleared for another pod may be open to this one afterwards."""
        blockers = (*search.blockers(candidates), *self._closed(pod, facts)) if explain else ()
        busy = (name for name, owner in self._in_use.items() if owner != pod.metadata.uid)
        taken = [name for name in busy if name not in facts.excluded] if others else []
        if taken and (search.best(taken) is not None or not tolerates_hold(pod, self._options)):
            reason = Reason(HELD.code, _cleared_first(taken))
            return Judgement(pod, WAITING, reason, blockers=blockers)
        return Judgement(pod, IMPOSSIBLE, _summary(blockers, facts.aside) if explain else UNEXPLAINED, blockers=blockers)

    def _search(self, pod: Pod, facts: Facts, options: RescueOptions) -> VictimSearch:
        placement = self._placement_for(facts)
        return VictimSearch(
            pod,
            placement,
            options,
            budgets=self._budgets,
            profiles=profiles_for(pod),
            banned=facts.banned,
            held=self._held,
            reaches=self._reaches,
        )

    def _fits(self, pod: Pod, feasible: t.Sequence[str], facts: Facts) -> Judgement:
        soon = [name for name in feasible if self._soon_on(name, facts)]
        if len(soon) == len(feasible):
            return _waiting(pod, ROOM_BECOMING_FREE, f"pods that are ending make room on node {soon[0]}")
        free = next(name for name in feasible if name not in soon)
        return _waiting(pod, "fits", f"there is room on node {free}; the scheduler will place it")

    # --- nodes ---

    def _soon_on(self, name: str, facts: Facts) -> list[Pod]:
        """The terminating pods of the node whose capacity counts as free."""
        pods = self._leaving.soon.get(name, [])
        return pods if facts.patient else [pod for pod in pods if self._is_awaited(pod, facts)]

    def _ending(self, facts: Facts) -> list[Pod]:
        """The terminating pods of the cluster that end soon, whether or not the pod could use their nodes."""
        pods = (pod for group in self._leaving.soon.values() for pod in group)
        return [pod for pod in pods if facts.awaits_others or self._is_awaited(pod, facts)]

    def _is_awaited(self, pod: Pod, facts: Facts) -> bool:
        """This program has made it end, or the scheduler on the node that it has promised: a kubelet can forge the scheduler's mark."""
        return pod.metadata.uid in self._evicted or (pod.spec.node_name == facts.promised and is_preempted(pod))

    def _placement_for(self, facts: Facts) -> ClusterState:
        """The placement without the pods whose capacity counts as free."""
        if facts.patient:
            return self.placement
        placement = self.placement.fork()
        for pods in self._leaving.soon.values():
            for pod in pods:
                if not self._is_awaited(pod, facts):
                    placement.restore(pod)
        return placement

    def _candidates(self, pod: Pod, facts: Facts, names: t.Optional[Collection[str]]) -> list[str]:
        uid = pod.metadata.uid
        return [
            name
            for name in (self._snapshot.nodes if names is None else names)
            if name in self._snapshot.nodes
            and name not in facts.excluded
            and name not in self._snapshot.undecodable_pods
            and self._in_use.get(name, uid) == uid
        ]

    def _closed(self, pod: Pod, facts: Facts) -> Iterator[Blocker]:
        """What keeps nodes from being looked at."""
        uid = pod.metadata.uid
        owners = [owner for name, owner in self._in_use.items() if name in self._snapshot.nodes]
        taken = len(owners) - owners.count(uid)
        tried = Reason("tried_in_vain", "node(s) were tried in vain")
        counts = ((HELD, taken), (tried, len(facts.excluded)))
        yield from (Blocker(reason, nodes) for reason, nodes in counts if nodes)
        undecodable = (one for name, one in self._snapshot.undecodable_pods.items() if name in self._snapshot.nodes)
        yield from (Blocker(undecodable_pod_reason(one), 1) for one in undecodable)
        nodes = len(self._snapshot.undecodable_of("Node"))
        if nodes:
            yield Blocker(Reason(UNDECODABLE, f"{'it' if nodes == 1 else 'they'} cannot be decoded"), nodes)

    def _judge(self, pod: Pod, facts: Facts) -> FilterRunner:
        return FilterRunner(pod, self._placement_for(facts), profiles_for(pod))


def profiles_for(pod: Pod) -> Profiles:
    """What is known of the pod's scheduler: another profile than the stock one counts as having its filters."""
    return {**DEFAULT_PROFILES, pod.spec.scheduler_name: DEFAULT_PROFILE}


def _cleared_first(names: t.Sequence[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]} is being cleared for another critical pod first"
    return f"nodes {' and '.join(names)} are being cleared for other critical pods first"


def _planned(pod: Pod, choice: Choice, aside: str, *, kept_by: t.Optional[str]) -> Judgement:
    victims = _names(victim.pod for victim in choice.victims)
    return Judgement(pod, PLANNED, Reason("makes_room", f"evict {victims} from node {choice.node}{aside}"), choice, kept_by)


def _names(pods: Iterable[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)


def _waiting(pod: Pod, code: str, text: str) -> Judgement:
    return Judgement(pod, WAITING, Reason(code, text))


def _until_ended(ending: t.Sequence[Pod], node_name: str) -> str:
    more = f" and {len(ending) - 1} other pods" if len(ending) > 1 else ""
    return (
        f"{_names(ending[:1])}{more} have to end first: only the nomination would keep the capacity of node {node_name}, and the scheduler "
        "can clear it when a pod ends. A pod that tolerates the taint of the hold does not wait for this"
    )


def _about(doubt: Reason) -> Reason:
    return Reason(doubt.code, f"whether evictions would help cannot be judged: {doubt.text or doubt.code}")


def _blockers_of(doubts: Iterable[Reason]) -> tuple[Blocker, ...]:
    return tuple(Blocker(doubt, 0) for doubt in doubts)


def _summary(blockers: t.Sequence[Blocker], aside: str) -> Reason:
    """All that stands in the way in one line, as the scheduler words it."""
    if not blockers:
        return Reason(NO_NODE, f"there is no node{aside}")
    text = "; ".join(f"{blocker.reason.text or blocker.reason.code} (nodes: {blocker.nodes})" for blocker in blockers)
    return Reason(NO_NODE, f"no eviction makes a node fit: {text}{aside}")
