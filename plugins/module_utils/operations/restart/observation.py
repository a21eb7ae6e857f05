# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One observation of the cluster: a snapshot, and the reports of single workloads on it."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from functools import cached_property

from ...kube.client.api import KubeApi
from ...kube.client.resources import NAMESPACES, WORKLOADS
from ...kube.snapshot_reader import read_snapshot
from ...model.budgets.ledger import PdbLedger
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...scheduler.cluster_state import ClusterState
from ...spread.check import WorkloadChecker
from ...spread.distribution import Distribution
from ...spread.eviction.planner import Move
from ...spread.options import CheckOptions
from ...spread.restart.options import EVICT_SURPLUS, ROLLOUT, RestartOptions
from ...spread.restart.targets import Target
from ...spread.spread_report import WorkloadReport
from ...spread.topology.topology import Topology
from ..common.scheduler_profiles import add_second_scheduler


class Observation:
    """A snapshot with the actions that were begun on it.

    Later decisions on it include these actions: see ``assume_restarted`` and ``assume_moved``. The snapshot has the pods of all namespaces
    only if decisions need the capacity of nodes.
    """

    def __init__(self, snapshot: ClusterSnapshot, options: RestartOptions, *, predict: bool) -> None:
        self.snapshot = snapshot
        self._predicts = predict
        self._topology_keys = options.topology_keys
        check_options = CheckOptions(
            namespace_annotation=None,
            topology_keys=options.topology_keys,
            max_skew=options.max_skew,
            predict=predict,
            add_constraints=options.adds_constraints,
        )
        self._checker = WorkloadChecker(snapshot, check_options)
        self._workloads = {
            Target(workload.kind, workload.metadata.namespace, workload.metadata.name): workload for workload in snapshot.workloads()
        }

    @classmethod
    def read(cls, api: KubeApi, targets: Sequence[Target], options: RestartOptions, *, last: bool = False) -> Observation:
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
        return cls(snapshot, options, predict=predict)

    @cached_property
    def budgets(self) -> PdbLedger:
        """The ledger of the PodDisruptionBudgets."""
        return PdbLedger(self.snapshot)

    @property
    def cluster_state(self) -> ClusterState:
        """The cluster state, including the assumed actions."""
        return self._checker.cluster_state

    def assume_restarted(self, report: WorkloadReport) -> None:
        """Assume that the workload's replicas are on the nodes of its predicted restart."""
        if self._predicts:
            self._checker.assume_restarted(report)

    def assume_moved(self, move: Move) -> None:
        """Assume that the replacement of an evicted pod is on the move's node."""
        move.apply_to(self.cluster_state)

    def report_for(self, target: Target) -> t.Optional[WorkloadReport]:
        """Return the report of the target. None if it does not exist or could not be read."""
        workload = self._workloads.get(target)
        return None if workload is None else self._checker.check(workload)

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
        return self.snapshot.once(Topology.of).distribute_over(self._topology_keys, node_names, eligible)
