# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One observation of the cluster: a snapshot, and the reports of single workloads on it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from functools import cached_property

from ...kube.client.api import KubeApi
from ...kube.client.resources import NAMESPACES, WORKLOADS
from ...kube.snapshot_reader import read_snapshot
from ...model.budgets.ledger import PdbLedger
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...spread.check import WorkloadChecker
from ...spread.distribution import Distribution, listed_by_key
from ...spread.eviction.decision import PlannedMoves, planned_moves
from ...spread.eviction.planner import Move
from ...spread.options import CheckOptions
from ...spread.prediction.draws import DRAWS
from ...spread.prediction.old_pods import after_ends
from ...spread.restart.options import EVICT_SURPLUS, ROLLOUT, RestartOptions
from ...spread.restart.possible_states import Counts, PossibleState, PossibleStates, StateAfter
from ...spread.restart.run_limits import RunLimits
from ...spread.restart.targets import Target
from ...spread.rollout import is_rolling
from ...spread.spread_report import WorkloadReport
from ...spread.topology.topology import Topology
from ..common.scheduler_profiles import add_second_scheduler

STATES_OF_RUN = 2
"""The most states in which a run decides. It observes the results afterwards, and a plan does not."""


class Observation:
    """A snapshot with the actions that were begun on it.

    Later decisions on it include these actions: each is made in all possible ``states``. The snapshot has the pods of all namespaces only
    if decisions need the capacity of nodes.
    """

    def __init__(self, snapshot: ClusterSnapshot, options: RestartOptions, limits: RunLimits, *, predict: bool) -> None:
        self.snapshot = snapshot
        self._options = options
        self._predicts = predict
        check_options = CheckOptions(
            namespace_annotations=(),
            topology_keys=options.topology_keys,
            max_skew=options.max_skew,
            predict=predict,
            add_constraints=options.adds_constraints,
        )
        self._checker = WorkloadChecker(snapshot, check_options)
        self._workloads = {Target.of(workload): workload for workload in snapshot.workloads()}
        cluster_state = self._checker.cluster_state
        if options.dry_run and options.wait:  # the run waits for pods that are terminating if a decision depends on them
            cluster_state = after_ends(cluster_state) or cluster_state
        self.states = PossibleStates(cluster_state, limits, DRAWS if options.dry_run else STATES_OF_RUN)

    @classmethod
    def read(
        cls, api: KubeApi, targets: Sequence[Target], options: RestartOptions, limits: RunLimits, *, last: bool = False
    ) -> Observation:
        """Read a new snapshot of the namespaces of the targets.

        Raise KubeError if nothing can be read. ``last``: no action is begun on it, so only the replicas themselves matter.
        """
        # The benefit of a restart depends on the capacity of nodes, which all pods use. Its harm does not.
        pods_everywhere = not last and (options.only_if_helps or options.strategy != ROLLOUT)
        namespaces = sorted({target.namespace for target in targets})
        # Workloads of the other kind may share budgets with the targets.
        kinds = sorted({target.kind for target in targets}) if last else tuple(WORKLOADS)
        predict = pods_everywhere and options.only_if_helps and options.strategy != EVICT_SURPLUS
        snapshot = read_snapshot(
            api,
            namespaces=namespaces,
            kinds=kinds,
            pods_everywhere=pods_everywhere,
            for_moves=not last,
            for_scores=pods_everywhere and options.only_if_helps,
            profiles=options.profiles,
        )
        if pods_everywhere:
            add_second_scheduler(api, snapshot)
        return cls(snapshot, options, limits, predict=predict)

    @cached_property
    def budgets(self) -> PdbLedger:
        """The ledger of the PodDisruptionBudgets."""
        return PdbLedger(self.snapshot)

    def assume_restarted(self, report: WorkloadReport, acting: Sequence[PossibleState]) -> Counts:
        """Assume a restart of the workload in these states.

        Return the expected replicas by topology key and domain. They are empty if the decisions need no prediction.
        """
        return self._assume_rollout(report, acting, is_new=True)

    def assume_continued(self, report: WorkloadReport) -> None:
        """Assume the end of the workload's rollout, if one is in progress."""
        if is_rolling(report.workload, self.snapshot):
            self._assume_rollout(report, self.states.distinct, is_new=False)

    def _assume_rollout(self, report: WorkloadReport, acting: Sequence[PossibleState], *, is_new: bool) -> Counts:
        target = Target.of(report.workload)

        def act(state: PossibleState, number: int) -> StateAfter:
            limits = state.limits
            if is_new and self._options.dry_run:  # a run has counted it, in the limits of all states
                limits = limits.fork()
                limits.add_restart(target)
            if not self._predicts:
                return StateAfter((), state.cluster_state, limits, {})
            restart = self._checker.simulate_restart(report, state.cluster_state, number)
            return StateAfter(tuple(sorted(restart.nodes)), restart.cluster_state, limits, self._replicas_on(restart.nodes, report))

        return self.states.assume(target, acting, act)

    def assume_moves(self, report: WorkloadReport, first: Mapping[PossibleState, Move]) -> tuple[Counts, PlannedMoves]:
        """Assume the evictions of the workload's pods that begin with ``first`` in each of these states.

        Return the expected replicas by topology key and domain, and the evictions of the first simulation.
        """
        simulated: list[PlannedMoves] = []

        def act(state: PossibleState, number: int) -> StateAfter:
            planned = planned_moves(report, self.snapshot, state, self._options, first[state], number)
            simulated.append(planned)
            identity = frozenset((move.pod.metadata.uid, move.node) for move in planned.moves)
            return StateAfter(identity, planned.cluster_state, planned.limits, self._replicas_on(sorted(planned.nodes), report))

        return self.states.assume(Target.of(report.workload), list(first), act), simulated[0]

    def report_for(self, target: Target) -> t.Optional[WorkloadReport]:
        """Return the report of the target in the first state. None if it does not exist or could not be read."""
        workload = self._workloads.get(target)
        return None if workload is None else self._checker.check(workload, self.states.first.cluster_state)

    def report_in(self, state: PossibleState, report: WorkloadReport) -> WorkloadReport:
        """Return the report with its prediction in another state than the first."""
        return report if state is self.states.first else self._checker.predicted_on(state.cluster_state, report)

    def _replicas_on(self, node_names: Sequence[str], report: WorkloadReport) -> Counts:
        topology = self.snapshot.once(Topology.of)
        return listed_by_key(topology.distribute_over(self._options.topology_keys, node_names, report.eligible))

    def undecodable(self, target: Target) -> t.Optional[Reason]:
        """Return the reason why an existing target cannot be checked: it or its namespace could not be decoded.

        None for any other target.
        """
        for one in self.snapshot.undecodable:
            is_it = one.kind == target.kind and one.may_be(target.namespace, target.name)
            if is_it or (one.kind == NAMESPACES.kind and one.metadata.name == target.namespace):
                return one.reason
        return None

    def distribution_over(self, before: t.Optional[WorkloadReport], report: WorkloadReport) -> Sequence[Distribution]:
        """Return the distributions of the present replicas over the nodes that were eligible before.

        A node that is no longer eligible must not improve the comparison.
        """
        if before is None:
            return report.distributions
        eligible = tuple(name for name in before.eligible if name in self.snapshot.nodes)
        node_names = [pod.spec.node_name for pod in self.snapshot.placed_pods(report.workload)]
        return self.snapshot.once(Topology.of).distribute_over(self._options.topology_keys, node_names, eligible)
