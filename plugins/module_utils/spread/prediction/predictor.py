# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Prediction of whether a restart spreads a workload better."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Sequence

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.reason import Blocker, Reason
from ...model.snapshot import ClusterSnapshot
from ...scheduler.affinity_term_index import required_anti_affinity, required_pod_affinity
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import Feasibility, find_feasible
from ...scheduler.scores.image_locality import DIFFERENT_SIZES, ImageSize
from ..advice.advice import SCORING_DOES_NOT_SPREAD
from ..distribution import Distribution, listed_by_key
from ..next_pod.next_pod import next_pod
from ..preconditions.admission.admission import admission_violation
from ..preconditions.admission.quota import quota_violation
from ..preconditions.admission.surge_quota import surge_capacity, surge_quota_violation
from ..preconditions.autoscaling import autoscaling_violation
from ..preconditions.restart import rollout_violation
from ..preconditions.shared_volume import shared_volume_violation
from ..rollout import partition
from ..skew_cost import SkewCost, skew_cost
from ..topology.topology import Topology
from .drawn_restart import DrawnRestart
from .draws import Draw, Draws, depends_on, waits_for_end
from .next_pods import NextPods
from .old_pods import after_ends, can_be_removed_in_other_orders, ending_pods
from .prediction import Prediction
from .restart_simulation import RestartSimulation, SimulatedRestart
from .scored_node import NodeUnknownError
from .stopped_rollout import stopped_rollout_unknown

BETTER = "simulated restarts spread the replicas better"
PREEMPTS = Reason(
    "preempts", "the nodes have too little free capacity for a new pod, and the scheduler would preempt pods with a lower priority for it"
)
MAY_PREEMPT = Reason(
    "depends_on_preemption",
    "a new pod may find no node, and the scheduler would then preempt pods with a lower priority: the nodes have too little free capacity",
)
NO_BETTER_SPREAD = Reason("no_better_spread", "the best distribution that a restart can reach is not better than the present one")
PILED_BY_SCORES = Reason(
    SCORING_DOES_NOT_SPREAD, "the new pods could run elsewhere, and the scores of the scheduler would not spread them better"
)


class RestartPredictor:
    """Predicts restarts on one snapshot.

    ``cluster_state``: the pods of the snapshot, or other ones if actions are assumed.
    """

    def __init__(self, snapshot: ClusterSnapshot, topology: Topology, cluster_state: ClusterState, *, topology_keys: Sequence[str]) -> None:
        self._snapshot = snapshot
        self._topology = topology
        self._cluster_state = cluster_state
        self._keys = list(topology_keys)
        self._draws = snapshot.once(Draws)

    def predict(self, workload: Workload, eligible: tuple[str, ...], now: Sequence[Distribution]) -> Prediction:
        """Predict the result of a restart of a collapsed or skewed workload.

        ``now`` has the distribution of its placed pods for each topology key. If the result is unknown while pods are terminating, predict
        that of a restart after their end.
        """
        found = self._predict(workload, eligible, now)
        ended = after_ends(self._cluster_state) if found.restart_helps is None else None
        if ended is None:
            return found
        found = RestartPredictor(self._snapshot, self._topology, ended, topology_keys=self._keys).predict(workload, eligible, now)
        return replace(found, awaits_ends=found.restart_helps is not None)

    def _predict(self, workload: Workload, eligible: tuple[str, ...], now: Sequence[Distribution]) -> Prediction:
        kinds = ("ResourceQuota", "LimitRange", "HorizontalPodAutoscaler")
        undecodable = self._snapshot.undecodable_in(workload.metadata.namespace, *kinds)
        if undecodable is not None:
            return Prediction(None, blockers=[Blocker(undecodable.reason)])
        violation = self._prediction_violation(workload)
        if violation is not None:
            return Prediction(False, blockers=[Blocker(violation)])
        unknown = next_pod(workload, self._snapshot).unknown or stopped_rollout_unknown(workload, self._snapshot)
        if unknown:
            return Prediction(None, blockers=[Blocker(reason) for reason in unknown])
        denied = (
            admission_violation(workload, self._snapshot)
            or quota_violation(workload, self._snapshot, pods=workload.spec.replicas - partition(workload))
            or surge_quota_violation(workload, self._snapshot)
        )
        if denied is not None:
            return Prediction(False, blockers=[Blocker(denied)])
        surge = surge_capacity(workload, self._snapshot)
        before = skew_cost(now)
        decides = self._decides(before, eligible)
        next_pods = NextPods(workload, self._snapshot, self._cluster_state)
        best = self._simulate(workload, next_pods, eligible, surge.pods, accept_unknown=True, decides=decides)
        domains = self._feasible_domains(best.first)
        spreads = best.preempts or self._better(before, best, eligible)
        if not spreads and self._is_best(workload, next_pods.pod(), eligible):
            return Prediction(False, domains, self._blockers(workload, best))
        unknowns = self._unknowns(best.first)
        if best.first.unknown:
            return Prediction(None, domains, unknowns)
        # If only single nodes are unknown, the other nodes may suffice.
        if unknowns and not self._better(before, self._simulate(workload, next_pods, eligible, surge.pods, decides=decides), eligible):
            return Prediction(None, domains, unknowns)

        def by_scores(pods: NextPods) -> Prediction:
            return self._by_scores(workload, pods, eligible, surge.pods, before, decides, domains, unknowns)

        found = by_scores(next_pods)
        if any(blocker.reason in DIFFERENT_SIZES for blocker in found.blockers):
            # One of the sizes counts for all nodes. It makes no difference if the smallest and the largest ones give the same result.
            sizes: tuple[ImageSize, ...] = ("smallest", "largest")
            smallest, largest = (by_scores(NextPods(workload, self._snapshot, self._cluster_state, image_size=size)) for size in sizes)
            if smallest.restart_helps is largest.restart_helps is not None:
                found = smallest
        if found.restart_helps is False and not spreads:
            return Prediction(False, domains, self._blockers(workload, best))
        unlabelled = self._topology.missing_label_violation(self._keys, _not_out(best.first))
        if unlabelled is not None and not found.restart_helps:
            # It may be the cause: a pod on one of these nodes is in no domain.
            found = replace(found, blockers=[*found.blockers, Blocker(unlabelled)])
        return found

    def restart(self, workload: Workload, eligible: tuple[str, ...], number: int) -> SimulatedRestart:
        """Return the restart of the workload by the draw with this number. If a rollout is in progress, it is the rest of that one."""
        surge = surge_capacity(workload, self._snapshot)
        next_pods = NextPods(workload, self._snapshot, self._cluster_state)
        try:
            return self._simulate(workload, next_pods, eligible, surge.pods, accept_unknown=True, draw=self._draws.of(workload, number))
        except NodeUnknownError:
            return self._simulate(workload, next_pods, eligible, surge.pods, accept_unknown=True)

    def _by_scores(
        self,
        workload: Workload,
        next_pods: NextPods,
        eligible: tuple[str, ...],
        max_surge: int,
        before: SkewCost,
        decides: t.Optional[t.Callable[[Sequence[str]], bool]],
        domains: dict[str, list[str]],
        unknowns: list[Blocker],
    ) -> Prediction:
        """Return the prediction for a workload that a restart could spread better, if the scheduler chose the nodes for that.

        ``unknowns``: the nodes of which it is not known whether the pods can run there. Every second simulation leaves them out.
        """
        results: list[bool] = []
        preempting: list[bool] = []
        certain: dict[t.Hashable, tuple[bool, bool]] = {}
        expected: dict[str, dict[str, int]] = {}
        has_times = not waits_for_end(workload) or bool(ending_pods(self._cluster_state))
        while not self._draws.suffice(results, workload.spec.replicas):
            number = len(results)
            draw = self._draws.of(workload, number)
            kind = draw.kind if has_times else ()
            found = certain.get(kind)
            if found is None:
                accept_unknown = not unknowns or draw.accepts_unknown
                try:
                    restart = self._simulate(
                        workload,
                        next_pods,
                        eligible,
                        max_surge,
                        accept_unknown=accept_unknown,
                        decides=decides if number else None,
                        draw=draw,
                    )
                except NodeUnknownError as error:
                    return Prediction(None, domains, [*unknowns, *map(Blocker, error.reasons)])
                if restart.preempts and not restart.certainly_preempts:
                    return Prediction(None, domains, [*unknowns, Blocker(MAY_PREEMPT)])
                found = self._better(before, restart, eligible), restart.preempts
                if number == 0 and not restart.preempts:
                    placed = self._topology.distribute_over(self._keys, restart.nodes, eligible)
                    expected = listed_by_key(placed)
                if draw.is_certain and not unknowns:
                    certain[kind] = found
            results.append(found[0])
            preempting.append(found[1])
        if all(preempting) and not unknowns:
            return Prediction(False, domains, [Blocker(PREEMPTS)])
        if any(preempting):
            return Prediction(None, domains, [*unknowns, Blocker(MAY_PREEMPT)])
        if all(results):
            return Prediction(True, domains, expected=expected)
        if not any(results):
            return Prediction(False, domains, [Blocker(PILED_BY_SCORES)], expected)
        if unknowns and depends_on("accepts_unknown", results):
            return Prediction(None, domains, unknowns, expected)
        return Prediction(None, domains, [*unknowns, Blocker(self._draws.uncertain(workload, results, BETTER))], expected)

    def _prediction_violation(self, workload: Workload) -> t.Optional[Reason]:
        """Return the reason why no restart of the workload helps. None if the simulation decides."""
        return (
            shared_volume_violation(workload, self._snapshot)
            or autoscaling_violation(workload, self._snapshot)
            or rollout_violation(workload, self._snapshot)
        )

    def _simulate(
        self,
        workload: Workload,
        next_pods: NextPods,
        eligible: tuple[str, ...],
        max_surge: int,
        *,
        accept_unknown: bool = False,
        decides: t.Optional[t.Callable[[Sequence[str]], bool]] = None,
        draw: t.Optional[Draw] = None,
    ) -> SimulatedRestart:
        args = (workload, self._snapshot, next_pods, eligible, self._topology, self._keys)
        options: dict[str, t.Any] = {"max_surge": max_surge, "accept_unknown": accept_unknown, "decides": decides}
        return (DrawnRestart(draw, *args, **options) if draw is not None else RestartSimulation(*args, **options)).run()

    def _decides(self, before: SkewCost, eligible: tuple[str, ...]) -> t.Optional[t.Callable[[Sequence[str]], bool]]:
        """Return a function that decides from the first new replicas that a restart is better than ``before``, the skew cost now.

        None if later replicas matter. Replicas in two domains are not collapsed, wherever the others are placed. If eligible nodes have no
        domain, a later replica may be in no domain.
        """
        if not before[0] or self._topology.missing_label_violation(self._keys, eligible) is not None:
            return None
        return lambda node_names: len(node_names) > 1 and self._topology.in_two_domains(self._keys, node_names, eligible)

    def _better(self, before: SkewCost, restart: SimulatedRestart, eligible: tuple[str, ...]) -> bool:
        """Return whether the outcome of the restart is improved (``spread.comparison``). ``before``: the skew cost now."""
        if restart.stuck is not None or restart.preempts:
            return False
        return restart.decided or skew_cost(self._topology.distribute_over(self._keys, restart.nodes, eligible)) < before

    def _feasible_domains(self, feasibility: Feasibility) -> dict[str, list[str]]:
        return {key: self._topology.domains_of(key, _not_out(feasibility)) for key in self._keys}

    def _blockers(self, workload: Workload, restart: SimulatedRestart) -> list[Blocker]:
        """Return the reasons of all nodes at the first step, or at the step where the restart would stop."""
        counted = restart.stuck or restart.first
        pod = next_pod(workload, self._snapshot).pod
        feasible = set(counted.feasible)
        closed = [name for name in self._snapshot.nodes if name not in counted.rejected and name not in feasible]
        static = find_feasible(pod, self._cluster_state, node_names=closed)
        merged = Feasibility((), {**counted.rejected, **static.rejected}, (), {})
        return [Blocker(reason, nodes) for reason, nodes in merged.counts()] or [Blocker(NO_BETTER_SPREAD)]

    def _is_best(self, workload: Workload, pod: Pod, eligible: tuple[str, ...]) -> bool:
        """Return whether no choice of nodes spreads the new pods better than always the least loaded node.

        Another first node can be better with a rule about other pods, with volumes that other nodes can use than those of the next pod, and
        with domains of one key that overlap with those of another key. If a rollout does not wait for the end of old pods on several nodes,
        another time or order of their removal can leave other nodes for the new pods.
        """
        if not waits_for_end(workload) and can_be_removed_in_other_orders(self._snapshot.owned_pods(workload)):
            return False
        return (
            not workload.spec.volume_claim_templates and not _has_rules_about_pods(pod) and self._topology.is_nested(self._keys, eligible)
        )

    def _unknowns(self, feasibility: Feasibility) -> list[Blocker]:
        unknowns = [Blocker(reason, len(feasibility.feasible)) for reason in feasibility.unknown]
        by_node = Counter(reason for reasons in feasibility.unknown_nodes.values() for reason in reasons)
        return [*unknowns, *(Blocker(reason, nodes) for reason, nodes in by_node.items())]


def _has_rules_about_pods(pod: Pod) -> bool:
    """Return whether a filter compares the domains of a node with those of other pods."""
    hard = any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in pod.spec.topology_spread_constraints or ())
    return hard or bool(required_pod_affinity(pod) or required_anti_affinity(pod))


def _not_out(feasibility: Feasibility) -> tuple[str, ...]:
    """Return the nodes that no filter rejects with certainty."""
    return (*feasibility.feasible, *feasibility.unknown_nodes) if feasibility.unknown_nodes else feasibility.feasible
