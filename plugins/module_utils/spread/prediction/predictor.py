# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Prediction of whether a restart spreads a workload better."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Sequence

from ...model.api.workload import Workload
from ...model.reason import Blocker, Reason
from ...model.snapshot import ClusterSnapshot
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import Feasibility, find_feasible
from ..distribution import Distribution
from ..next_pod.next_pod import next_pod
from ..preconditions.admission.admission import admission_violation
from ..preconditions.admission.quota import quota_violation
from ..preconditions.admission.surge_quota import surge_capacity, surge_quota_violation
from ..preconditions.autoscaling import autoscaling_violation
from ..preconditions.shared_volume import shared_volume_violation
from ..preconditions.update_strategy.on_delete import on_delete_violation
from ..rollout import partition
from ..topology.topology import Topology
from ..verdict import WORST_RANK, ImbalanceRank, imbalance_rank
from .prediction import Prediction
from .restart_simulation import RestartSimulation, SimulatedRestart


class RestartPredictor:
    """Predicts restarts on one snapshot.

    The cluster state of the snapshot is computed once. ``cluster_state`` includes the restarts that are assumed.
    """

    def __init__(self, snapshot: ClusterSnapshot, topology: Topology, *, topology_keys: Sequence[str], max_skew: t.Optional[int]) -> None:
        self._snapshot = snapshot
        self._topology = topology
        self.cluster_state = ClusterState.of(snapshot)
        self._keys = list(topology_keys)
        self._max_skew = max_skew

    def predict(
        self, workload: Workload, eligible: tuple[str, ...], now: Sequence[Distribution], *, preference: t.Optional[Reason] = None
    ) -> Prediction:
        """Predict the result of a restart of a collapsed or skewed workload.

        ``now`` has the distribution of its placed pods for each topology key. ``preference`` is the result of
        ``preferred_affinity.preferred_affinity_violation``.
        """
        kinds = ("ResourceQuota", "LimitRange", "HorizontalPodAutoscaler")
        undecodable = self._snapshot.undecodable_in(workload.metadata.namespace, *kinds)
        if undecodable is not None:
            return Prediction(None, blockers=[Blocker(undecodable.reason)])
        violation = self._prediction_violation(workload)
        if violation is not None:
            return Prediction(False, blockers=[Blocker(violation)])
        unknown = next_pod(workload, self._snapshot).unknown
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
        before = imbalance_rank(now, max_skew=self._max_skew)
        decides = self._decides(before, eligible)
        best = self._simulate(workload, eligible, surge.pods, accept_unknown=True, decides=decides)
        domains = self._feasible_domains(best.first)
        if not self._better(before, best, eligible):
            return Prediction(False, domains, self._blockers(workload, best))
        unlabelled = self._topology.missing_label_violation(self._keys, _not_out(best.first))
        if unlabelled is not None:
            return Prediction(None, domains, [Blocker(unlabelled)])
        unknowns = self._unknowns(best.first, preference)
        if not unknowns:
            return Prediction(True, domains)
        # If only single nodes are unknown, the other nodes may suffice. If the pod itself is unknown or a preference counteracts, no node
        # is certain.
        if preference is None and not best.first.unknown:
            sure = self._simulate(workload, eligible, surge.pods, accept_unknown=False, decides=decides)
            if self._better(before, sure, eligible):
                return Prediction(True, domains)
        return Prediction(None, domains, unknowns)

    def assume_restarted(self, workload: Workload, eligible: tuple[str, ...]) -> None:
        """Assume that the workload's replicas are on the nodes that a restart would give them."""
        surge = surge_capacity(workload, self._snapshot)
        self.cluster_state = self._simulate(workload, eligible, surge.pods, accept_unknown=True).cluster_state

    def _prediction_violation(self, workload: Workload) -> t.Optional[Reason]:
        """Return the reason why no restart of the workload helps. None if the simulation decides."""
        return (
            shared_volume_violation(workload, self._snapshot)
            or autoscaling_violation(workload, self._snapshot)
            or on_delete_violation(workload)
        )

    def _simulate(
        self,
        workload: Workload,
        eligible: tuple[str, ...],
        max_surge: int,
        *,
        accept_unknown: bool,
        decides: t.Optional[t.Callable[[Sequence[str]], bool]] = None,
    ) -> SimulatedRestart:
        return RestartSimulation(
            workload,
            self._snapshot,
            self.cluster_state,
            eligible,
            self._topology,
            self._keys,
            max_surge=max_surge,
            accept_unknown=accept_unknown,
            decides=decides,
        ).run()

    def _decides(self, before: ImbalanceRank, eligible: tuple[str, ...]) -> t.Optional[t.Callable[[Sequence[str]], bool]]:
        """Return a function that decides from the first new replicas that a restart is better than ``before``.

        None if later replicas matter. Replicas in two domains are not collapsed, wherever the others are placed. If eligible nodes have no
        domain, a later replica may be in no domain.
        """
        if before[0] < WORST_RANK or self._topology.missing_label_violation(self._keys, eligible) is not None:
            return None

        return lambda node_names: len(node_names) > 1 and self._topology.in_two_domains(self._keys, node_names, eligible)

    def _better(self, before: ImbalanceRank, restart: SimulatedRestart, eligible: tuple[str, ...]) -> bool:
        if restart.stuck is not None:
            return False
        if restart.decided:
            return True
        return imbalance_rank(self._topology.distribute_over(self._keys, restart.nodes, eligible), max_skew=self._max_skew) < before

    def _feasible_domains(self, feasibility: Feasibility) -> dict[str, list[str]]:
        return {key: self._topology.domains_of(key, _not_out(feasibility)) for key in self._keys}

    def _blockers(self, workload: Workload, restart: SimulatedRestart) -> list[Blocker]:
        """Return the reasons of all nodes at the first step, or at the step where the restart would stop."""
        counted = restart.stuck or restart.first
        pod = next_pod(workload, self._snapshot).pod
        feasible = set(counted.feasible)
        closed = [name for name in self._snapshot.nodes if name not in counted.rejected and name not in feasible]
        static = find_feasible(pod, self.cluster_state, node_names=closed)
        merged = Feasibility((), {**counted.rejected, **static.rejected}, (), {})
        return [Blocker(reason, nodes) for reason, nodes in merged.counts()]

    def _unknowns(self, feasibility: Feasibility, preference: t.Optional[Reason]) -> list[Blocker]:
        unknowns = [Blocker(reason, len(feasibility.feasible)) for reason in feasibility.unknown]
        by_node = Counter(reason for reasons in feasibility.unknown_nodes.values() for reason in reasons)
        unknowns += [Blocker(reason, nodes) for reason, nodes in by_node.items()]
        if preference is not None:
            unknowns.append(Blocker(preference))
        return unknowns


def _not_out(feasibility: Feasibility) -> tuple[str, ...]:
    """Return the nodes that no filter rejects with certainty."""
    return (*feasibility.feasible, *feasibility.unknown_nodes) if feasibility.unknown_nodes else feasibility.feasible
