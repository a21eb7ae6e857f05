# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Plans the rescue of each critical pod for which the scheduler has found no node.

The order of the checks follows from the reasons for which a pod is pending: evictions help only against a lack of capacity.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.budgets.ledger import PdbLedger
from ..model.caches import BoundedCache
from ..model.reason import Blocker, Reason
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import undecodable_of
from ..scheduler.cluster_state import ClusterState
from . import plan_reasons as reasons
from .critical import effective_priority
from .eviction_rules.pod_outside_window import MaintenanceWindows
from .hold_policy import HoldPolicy, has_permanent_taint, hold_policy, no_toleration_reason, tolerates_hold
from .nomination_alone import single_victim_plan, unsuitable_victims, with_one_victim
from .options import RescueOptions
from .plan import IMPOSSIBLE, WAITING, Choice, RescueContext, RescuePlan
from .search.diagnosis import Diagnosis
from .search.victim_search import MAX_CAPACITIES, Capacities, VictimSearch
from .terminating_pods import is_preempted, terminating_pods


class RescuePlanner:
    """Plans on one snapshot. The capacity that is reserved for one pod is not free for the pods that are planned after it.

    ``in_use``: the nodes that are being cleared or held, each with the uid of the pod that they are for; empty if that pod is gone.
    ``evicted``: the remaining seconds of the grace period of each pod that this program has evicted, by uid. ``rescued``: the uids of pods
    that were rescued a short time ago. ``earlier``: the planner of an earlier snapshot, which must not be used afterwards. Its results
    about what has not changed are reused, and none of them depends on ``rescued``.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        options: RescueOptions,
        *,
        now_s: float,
        in_use: t.Optional[dict[str, str]] = None,
        evicted: t.Optional[Mapping[str, float]] = None,
        rescued: frozenset[str] = frozenset(),
        earlier: t.Optional[RescuePlanner] = None,
    ) -> None:
        self.cluster_state: ClusterState = ClusterState.of(snapshot, earlier.cluster_state if earlier is not None else None)
        self._capacities: Capacities = earlier._capacities if earlier is not None else BoundedCache(MAX_CAPACITIES)
        self.rescued = rescued
        self._snapshot, self._options = snapshot, options
        self._in_use = in_use or {}
        self._terminating = terminating_pods(snapshot, now_s, grace_period_s=options.grace_period_s, evicted=evicted)
        self._expected: dict[str, RescuePlan] = {}
        self._budgets = PdbLedger(snapshot)
        self._windows = MaintenanceWindows(snapshot, now_s) if options.respect_windows else None
        for pod in self._terminating.all_ending_soon():
            self.cluster_state.remove(pod)

    def has_node_for(self, pod_uid: str) -> bool:
        """Return whether a node is being cleared or held for the pod."""
        return pod_uid in self._in_use.values()

    def plan_rescue(self, pod: Pod, context: RescueContext, *, explain: bool = True) -> RescuePlan:
        """Return the plan for the pod now, on any node.

        Without ``explain``, the reasons why no eviction helps are not computed, and the plan then has no blockers.
        """
        undecodable = undecodable_of(pod)
        if undecodable is not None:
            return RescuePlan(pod, IMPOSSIBLE, undecodable.reason)
        context = context._replace(nominated_node=pod.status.nominated_node_name)
        search = self._search(pod, context)
        context, promised = self._plan_with_nomination(pod, context, search)
        if promised is not None:
            return promised
        if context.scheduler_down is not None:
            return RescuePlan(pod, IMPOSSIBLE, context.scheduler_down)
        return self._plan_on_all(pod, context, search, explain=explain)

    def replan_on_node(
        self, pod: Pod, node_name: str, context: RescueContext, planned_victims: Collection[str] = frozenset()
    ) -> RescuePlan:
        """Return the plan on the node that is being cleared for the pod.

        It is WAITING if the pod now fits without evictions, or if its scheduler is not running. ``planned_victims``: uids of the pods that
        the first plan for the node named. No other pods are evicted if those are enough.
        """
        undecodable = undecodable_of(pod)
        if undecodable is not None:
            return RescuePlan(pod, IMPOSSIBLE, undecodable.reason)
        context = context._replace(nominated_node=pod.status.nominated_node_name)
        search = self._search(pod, context)
        if not (context.nominated_by_rescue and context.nominated_node == node_name):
            promised = self._plan_with_nomination(pod, context, search)[1]
            if promised is not None:
                return promised
        if context.scheduler_down is not None:
            return reasons.waiting(pod, context.scheduler_down.code, context.scheduler_down.text)
        if search.unknown:
            return reasons.undecidable(pod, search.unknown)
        candidates = self._candidates(pod, context)
        feasible = search.feasible(candidates)
        if feasible:
            return self._wait_for_scheduler(pod, feasible, context)
        own = [name for name in candidates if name == node_name]
        if planned_victims:
            # After the first evictions other pods may cost less than the rest of the plan, but more of them may be needed.
            there = (other.metadata.uid for other in self._snapshot.pods_by_node.get(node_name, ()))
            unplanned = context.excluded_victims.union(uid for uid in there if uid not in planned_victims)
            with_planned = context._replace(excluded_victims=unplanned)
            plan = self._plan_evictions(pod, with_planned, own, self._search(pod, with_planned), others=False, explain=False)
            if plan.status != IMPOSSIBLE:
                return plan
        return self._plan_evictions(pod, context, own, search, others=False, explain=True)

    def current_violations(
        self, pod: Pod, victim: Pod, node: Node, context: RescueContext
    ) -> tuple[t.Optional[Reason], t.Optional[Reason]]:
        """Return the reason why the victim may not be evicted for the pod, and the reason why the node is closed to the pod.

        Each is None if there is no such reason. Both are computed for the given objects, not for those of the snapshot.
        """
        search = self._search(pod, context)
        closed = search.closed(node)
        return search.eviction_violation(victim), closed[0] if closed else None

    def reserve(self, plan: RescuePlan) -> bool:
        """Reserve the plan's node, its capacity and the disruptions that its victims need. They are not free for later plans.

        Return False and reserve nothing if the plan has no choice, or if the node or a victim is not in the snapshot.
        """
        choice = plan.choice
        if choice is None or choice.node not in self._snapshot.nodes:
            return False
        there = {pod.metadata.uid for pod in self._snapshot.pods_by_node.get(choice.node, ())}
        if not there.issuperset(victim.pod.metadata.uid for victim in choice.victims):
            return False
        for victim in choice.victims:
            self.cluster_state.remove(victim.pod)
        self._budgets.reserve([victim.pod for victim in choice.victims])
        self.cluster_state.assign(plan.pod, choice.node)
        self._in_use[choice.node] = plan.pod.metadata.uid
        return True

    def expect(self, plan: RescuePlan) -> None:
        """Keep the expected or the next node of the plan for its pod: no evictions are planned there for pods that get it later."""
        if plan.expected_node or plan.next_node:
            self._expected[plan.pod.metadata.uid] = plan

    # --- why it is pending ---

    def _plan_with_nomination(self, pod: Pod, context: RescueContext, search: VictimSearch) -> tuple[RescueContext, t.Optional[RescuePlan]]:
        """Return a context and a plan for a pod that is nominated for a node.

        The plan is to wait if the pod fits on that node. Otherwise it is None, and the context excludes the node if the scheduler's own
        victims there do not end soon.
        """
        name = context.nominated_node
        if name not in self._snapshot.nodes or name in context.excluded_nodes:
            return context, None
        if search.feasible((name,)):
            ending = self._terminating.awaited_on(name, context)
            why = "where terminating pods free the capacity for it" if ending else "which has enough free capacity"
            return context, reasons.waiting(pod, "preemption_under_way", f"it is nominated for node {name}, {why}")
        staying = [other for other in self._terminating.not_ending_soon.get(name, ()) if is_preempted(other)]
        if not staying:
            return context, None
        note = (
            f"{context.note}; the scheduler waits for node {name}, where {reasons.pod_names(staying)} should have ended or ends much later"
        )
        return context._replace(excluded_nodes=context.excluded_nodes | {name}, note=note), None

    def _plan_on_all(self, pod: Pod, context: RescueContext, search: VictimSearch, *, explain: bool) -> RescuePlan:
        if search.unknown:
            return reasons.undecidable(pod, search.unknown)
        candidates = self._candidates(pod, context)
        feasible = search.feasible(search.reachable_nodes(candidates))
        if feasible:
            return self._wait_for_scheduler(pod, feasible, context)
        expected = self._expected_before(pod) if context.awaits_expected else {}
        if expected:
            plan = self._plan_evictions(pod, context, [name for name in candidates if name not in expected], search, explain=False)
            if plan.status != IMPOSSIBLE:
                return plan
        plan = self._plan_evictions(pod, context, candidates, search, explain=explain)
        if plan.choice is None or plan.choice.node not in expected:
            return plan
        return reasons.waiting(pod, reasons.ANOTHER_POD_FIRST, reasons.expected_first_text(expected[plan.choice.node]))

    def _expected_before(self, pod: Pod) -> dict[str, RescuePlan]:
        """Return the nodes that another pod is expected to get before this one, each with the plan of one such pod.

        The other pod has a higher priority, or it has the same priority and needs no evictions. If both have the same priority and the
        other one needs evictions, this pod does not wait for it.
        """
        own, found = effective_priority(pod, self._options), {}
        for uid, plan in self._expected.items():
            priority = effective_priority(plan.pod, self._options)
            if uid != pod.metadata.uid and (priority > own or (plan.expected_node and priority == own)):
                found[plan.expected_node or plan.next_node] = plan
        return found

    def _plan_evictions(
        self, pod: Pod, context: RescueContext, candidates: Collection[str], search: VictimSearch, *, others: bool = True, explain: bool
    ) -> RescuePlan:
        """Return the plan for a pod that fits on no node without evictions. ``others``: as in ``_no_eviction_helps``."""
        choice = search.best(candidates)
        if choice is None:
            return self._no_eviction_helps(pod, context, candidates, search, others=others, explain=explain)
        policy = self._hold_policy_of(pod, choice)
        if policy.violation is None and not (policy.needs_quiet_cluster and self._terminating.awaited_in_cluster(context)):
            return reasons.planned(pod, choice, context.note, hold_method=policy.hold_method)
        # The cheapest set cannot be held. Nodes where a foreign taint of this key keeps other pods off need no hold, so they are tried
        # first.
        key = self._options.hold_taint_key
        kept = [name for name in candidates if has_permanent_taint(self._snapshot.nodes[name], key)]
        choice = search.best(kept) if kept else None
        if choice is not None:
            return reasons.planned(pod, choice, context.note, hold_method=None)
        return self._plan_single_victim(pod, context, candidates, policy.violation)

    def _plan_single_victim(
        self, pod: Pod, context: RescueContext, candidates: Collection[str], violation: t.Optional[Reason]
    ) -> RescuePlan:
        """Return a plan with one victim, for a pod that does not tolerate the taint of a hold."""
        excluded = context.excluded_victims.union(unsuitable_victims(self._snapshot.pods, pod))
        options = with_one_victim(self._options.after(context.evicted_count))
        choice = self._search(pod, context._replace(excluded_victims=excluded), options).best(candidates)
        if choice is None or self._hold_policy_of(pod, choice).violation is not None:
            violation = violation or no_toleration_reason(pod, self._options.hold_taint_key)
            return RescuePlan(pod, IMPOSSIBLE, violation, blockers=(Blocker(violation, len(candidates)),))
        return single_victim_plan(pod, choice, self._terminating.awaited_in_cluster(context), context.note)

    def _hold_policy_of(self, pod: Pod, choice: Choice) -> HoldPolicy:
        return hold_policy(pod, self._snapshot.nodes[choice.node], choice.victims, self._options)

    def _no_eviction_helps(
        self, pod: Pod, context: RescueContext, candidates: Collection[str], search: VictimSearch, *, others: bool, explain: bool
    ) -> RescuePlan:
        """Return the plan for a pod that no eviction helps now.

        ``others``: also check the nodes that are being cleared for other pods; such a node may be open to this pod afterwards.
        """
        blockers: tuple[Blocker, ...] = ()
        if explain:
            blockers = (*Diagnosis(search).explain(candidates), *reasons.unchecked_nodes(self._snapshot, self._in_use, pod, context))
        busy = (name for name, owner in self._in_use.items() if owner != pod.metadata.uid)
        taken = [name for name in busy if name not in context.excluded_nodes] if others else []
        if taken and (search.best(taken) is not None or not tolerates_hold(pod, self._options)):
            reason = Reason(reasons.HELD.code, reasons.cleared_first_text(taken))
            return RescuePlan(pod, WAITING, reason, blockers=blockers)
        reason = reasons.no_eviction_helps_reason(blockers, context.note) if explain else reasons.UNEXPLAINED
        return RescuePlan(pod, IMPOSSIBLE, reason, blockers=blockers)

    def _search(self, pod: Pod, context: RescueContext, options: t.Optional[RescueOptions] = None) -> VictimSearch:
        snapshot = self._snapshot
        return VictimSearch(
            pod,
            self._terminating.cluster_state(self.cluster_state, context),
            options or self._options.after(context.evicted_count),
            capacities=self._capacities,
            budgets=self._budgets,
            # If the profile of the pod is not known, it is assumed to have the filters of the default profile.
            profiles={**snapshot.profiles, pod.spec.scheduler_name: snapshot.profile_of(pod)},
            excluded_victims=context.excluded_victims,
            windows=self._windows,
            rescued=self.rescued,
        )

    def _wait_for_scheduler(self, pod: Pod, feasible: t.Sequence[str], context: RescueContext) -> RescuePlan:
        soon = [name for name in feasible if self._terminating.awaited_on(name, context)]
        if len(soon) == len(feasible):
            code, node, text = reasons.CAPACITY_BECOMING_FREE, soon[0], f"terminating pods free enough capacity on node {soon[0]}"
        else:
            node = next(name for name in feasible if name not in soon)
            code, text = "fits", f"node {node} has enough free capacity; the scheduler will bind the pod"
        return reasons.waiting(pod, code, text, expected_node=node)

    # --- nodes ---

    def _candidates(self, pod: Pod, context: RescueContext) -> list[str]:
        uid, closed = pod.metadata.uid, context.excluded_nodes | self._snapshot.undecodable_pods.keys()
        return [name for name in self._snapshot.nodes if name not in closed and self._in_use.get(name, uid) == uid]
