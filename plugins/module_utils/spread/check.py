# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The spread check: the verdict, the prediction and the advice for every workload in scope.

It has no side effects: it takes a snapshot and returns a report. Modules that only uneven workloads need are imported when the first uneven
workload is found. Ansible packs the sources, and Python compiles each module that a run imports.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Sequence
from functools import partial

from ..model.api.workload import Workload
from ..model.codec import replace
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from .distribution import Distribution
from .eligible_nodes import EligibleNodes
from .history import interrupted_eviction, interrupted_restart
from .namespace_selection import choose_namespaces, nothing_chosen_reason
from .next_pod.next_pod import next_pod
from .options import CheckOptions
from .preconditions.ignored import ignored_violation
from .preconditions.namespace_terminating import namespace_terminating_violation
from .preconditions.rolling import rolling_violation
from .preconditions.system_workload import system_workload_violation
from .preconditions.too_few_replicas import too_few_replicas_violation
from .spread_report import SpreadReport, WorkloadReport
from .topology.missing_domain import NO_DOMAIN_CODE, missing_domain_reason
from .topology.topology import Topology
from .verdict import COLLAPSED, HEALTHY, ROLLING, SINGLE_DOMAIN, SKEWED, SKIPPED, UNKNOWN, Verdict, worst_verdict

if t.TYPE_CHECKING:
    from ..scheduler.cluster_state import ClusterState
    from .prediction.prediction import Prediction
    from .prediction.predictor import RestartPredictor
    from .prediction.restart_simulation import SimulatedRestart


TOO_FEW_NODES = "too_few_ready_nodes"


def check_spread(
    snapshot: ClusterSnapshot, options: CheckOptions, *, names: t.Optional[Collection[tuple[str, str]]] = None
) -> SpreadReport:
    """Check every workload of the chosen namespaces and kinds, or only those with this kind and name.

    The report has a reason and no workloads if too few nodes are eligible or no namespace is chosen.
    """
    chosen, skipped = choose_namespaces(snapshot, options)
    places = {namespace.metadata.name for namespace in chosen}
    workloads = [workload for workload in snapshot.workloads(options.kinds) if workload.metadata.namespace in places]
    if names is not None:
        workloads = [workload for workload in workloads if (workload.kind, workload.metadata.name) in names]
    eligible_nodes = EligibleNodes(snapshot)
    eligible = eligible_nodes.open_to_any(workloads)
    report = SpreadReport(
        nodes_total=len(snapshot.nodes),
        nodes_ready=sum(node.ready for node in snapshot.nodes.values()),
        nodes_eligible=len(eligible),
        namespaces=len(chosen),
        skipped_namespaces=skipped,
        undecodable=snapshot.undecodable,
    )
    if len(eligible) < options.min_ready_nodes:
        text = f"nodes that are ready and open to workloads: {len(eligible)}, min_ready_nodes: {options.min_ready_nodes}"
        return replace(report, reason=Reason(TOO_FEW_NODES, text))
    if not chosen:
        return replace(report, reason=nothing_chosen_reason(snapshot, options, skipped))
    names_nothing = options.namespaces is None and not options.namespace_annotations and names is None
    checker = WorkloadChecker(snapshot, options, eligible_nodes, leaves_out_system=names_nothing)
    return replace(report, workloads=tuple(checker.check(workload) for workload in workloads))


class WorkloadChecker:
    """Checks single workloads on one snapshot. ``leaves_out_system``: no action may move the workloads of the system."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        options: CheckOptions,
        eligible_nodes: t.Optional[EligibleNodes] = None,
        *,
        leaves_out_system: bool = False,
    ) -> None:
        self._leaves_out_system = leaves_out_system
        self._snapshot = snapshot
        self._options = options
        self._eligible_nodes = eligible_nodes or EligibleNodes(snapshot)
        self._topology = snapshot.once(Topology.of)
        self._read_state: t.Optional[ClusterState] = None

    @property
    def cluster_state(self) -> ClusterState:
        """The cluster state of the snapshot."""
        if self._read_state is None:
            from ..scheduler.cluster_state import ClusterState

            self._read_state = ClusterState.of(self._snapshot)
        return self._read_state

    def predicted_on(self, cluster_state: ClusterState, workload_report: WorkloadReport) -> WorkloadReport:
        """Return the report with the prediction on another cluster state, if it has a prediction."""
        if workload_report.prediction is None:
            return workload_report
        return replace(workload_report, prediction=self._predict(self._restarted(workload_report), workload_report, cluster_state))

    def simulate_restart(self, workload_report: WorkloadReport, cluster_state: ClusterState, number: int) -> SimulatedRestart:
        """Return the restart of the workload on the cluster state, by the draw with this number."""
        return self._predictor(cluster_state).restart(self._restarted(workload_report), workload_report.eligible, number)

    def _predictor(self, cluster_state: ClusterState) -> RestartPredictor:
        from .prediction.predictor import RestartPredictor

        return RestartPredictor(self._snapshot, self._topology, cluster_state, topology_keys=self._options.topology_keys)

    def _restarted(self, workload_report: WorkloadReport) -> Workload:
        """Return the workload with the pod template that its restart gives it."""
        workload, keys = workload_report.workload, self._options.topology_keys
        if not self._options.add_constraints:
            return workload
        from .spread_constraints import missing_constraints, with_constraints

        pod = next_pod(workload, self._snapshot).pod
        return with_constraints(workload, missing_constraints(workload, pod, self._snapshot, workload_report.eligible, keys))

    def check(self, workload: Workload, cluster_state: t.Optional[ClusterState] = None) -> WorkloadReport:
        """Return the report of the workload. Skipped and rolling workloads get no other verdict. Only uneven workloads get a prediction.

        ``cluster_state``: the state for the prediction, by default that of the snapshot.
        """
        placed = self._snapshot.placed_pods(workload)
        eligible = self._eligible_nodes.of(workload)
        node_names = [pod.spec.node_name for pod in placed]
        distributions = tuple(self._topology.distribute_over(self._options.topology_keys, node_names, eligible.names))
        verdict = self._verdict(workload, node_names, eligible.names, distributions)
        workload_report = WorkloadReport(workload, verdict, len(placed), distributions, eligible.names, eligible.rules_hash)
        system = system_workload_violation(workload, self._snapshot) if self._leaves_out_system else None
        if system is not None:
            return self._explain(replace(workload_report, refusal=system, left_out=True), node_names, cluster_state)
        return self._explain(replace(workload_report, interrupted=self._is_interrupted(workload_report)), node_names, cluster_state)

    def _verdict(
        self, workload: Workload, node_names: Sequence[str], eligible: Sequence[str], distributions: Sequence[Distribution]
    ) -> Verdict:
        skipped = self._skip_violation(workload)
        if skipped is not None:
            return Verdict(SKIPPED, skipped)
        unknown = self._snapshot.undecodable_revision(workload)
        if unknown is not None:
            return Verdict(UNKNOWN, unknown.reason)
        in_progress = rolling_violation(workload, self._snapshot)
        if in_progress is not None:
            return Verdict(ROLLING, in_progress)
        if len(node_names) < 2:
            return Verdict(UNKNOWN, Reason("not_placed", f"{len(node_names)} of {workload.spec.replicas} replicas are on a node"))
        verdict = worst_verdict(distributions, max_skew=self._options.max_skew)
        if verdict.verdict == UNKNOWN and not eligible:
            return Verdict(HEALTHY, Reason(SINGLE_DOMAIN, "no node is eligible"), verdict.topology_key)
        decided_by = next((one for one in distributions if one.topology_key == verdict.topology_key), None)
        if verdict.reason.code == NO_DOMAIN_CODE and decided_by is not None and decided_by.domains:
            return verdict._replace(reason=missing_domain_reason(self._snapshot, verdict.topology_key, node_names))
        return verdict

    def _skip_violation(self, workload: Workload) -> t.Optional[Reason]:
        """Return the reason why the workload is not checked. None if it is checked."""
        return (
            ignored_violation(workload, self._snapshot)
            or namespace_terminating_violation(workload, self._snapshot)
            or too_few_replicas_violation(workload)
        )

    def _is_interrupted(self, workload_report: WorkloadReport) -> bool:
        if workload_report.verdict.verdict == SKIPPED:
            return False
        found = interrupted_restart(workload_report.workload, self._snapshot) or interrupted_eviction(
            workload_report.workload, self._snapshot
        )
        return found is not None

    def _explain(
        self, workload_report: WorkloadReport, node_names: Sequence[str], cluster_state: t.Optional[ClusterState]
    ) -> WorkloadReport:
        if workload_report.verdict.verdict not in (COLLAPSED, SKEWED):
            return workload_report
        from .advice.advice import SCORING_DOES_NOT_SPREAD, advise
        from .advice.preferred_affinity import preferred_affinity_reason
        from .advice.volume_pinning import pinned_by_volumes

        pod = next_pod(workload_report.workload, self._snapshot).pod
        pinned = pinned_by_volumes(
            workload_report.workload,
            self._snapshot,
            lambda: self.cluster_state,
            workload_report.eligible,
            workload_report.verdict.topology_key,
        )
        prediction = None
        if self._options.predict:
            prediction = self._predict(self._restarted(workload_report), workload_report, cluster_state or self.cluster_state)
        blocked_by = {blocker.reason.code for blocker in prediction.blockers} if prediction is not None else set()
        piled_by_scores = SCORING_DOES_NOT_SPREAD in blocked_by
        preference = None
        if prediction is None or prediction.restart_helps is None or piled_by_scores:
            preference = preferred_affinity_reason(pod, node_names, workload_report.eligible, self._snapshot.nodes)
        return replace(
            workload_report,
            prediction=prediction,
            advice=tuple(
                advise(
                    workload_report.workload,
                    pod,
                    self._snapshot,
                    workload_report.eligible,
                    topology_keys=self._options.topology_keys,
                    preference=preference,
                    pinned=pinned,
                    helps=partial(self._helps, workload_report) if piled_by_scores else None,
                    soft_is_predicted=self._options.add_constraints,
                )
            ),
            refusal=workload_report.refusal or self._restart_refusal(workload_report),
        )

    def _predict(self, workload: Workload, workload_report: WorkloadReport, cluster_state: ClusterState) -> Prediction:
        return self._predictor(cluster_state).predict(workload, workload_report.eligible, workload_report.distributions)

    def _helps(self, workload_report: WorkloadReport, changed: Workload) -> bool:
        """Return whether a restart of the report's workload with the pod template of ``changed`` certainly helps."""
        return self._predict(changed, workload_report, self.cluster_state).restart_helps is True

    def _restart_refusal(self, workload_report: WorkloadReport) -> t.Optional[Reason]:
        """Return the reason why k8s_rollout_restart, with the same cooldown and attempts, refuses a restart now. None if it does not."""
        from .preconditions.restart import restart_violation
        from .restart.permission import not_now_violation, restart_permission

        workload, snapshot = workload_report.workload, self._snapshot
        forbidden = restart_violation(workload, snapshot, allow_downtime=False)
        if forbidden is not None:
            return forbidden
        permission = restart_permission(
            workload,
            snapshot,
            workload_report.eligible_hash,
            workload_report.distributions,
            now_s=snapshot.read_at_s,
            cooldown_s=self._options.cooldown_s,
            max_attempts=self._options.max_attempts,
        )
        # An interrupted restart has not failed yet. If its attempts are used up, its second check is still due.
        if permission.used_up and interrupted_restart(workload, snapshot) is not None:
            permission = permission._replace(violation=None)
        return not_now_violation(workload, snapshot, permission, now_s=snapshot.read_at_s)
