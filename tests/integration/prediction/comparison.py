# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks each uneven workload of a random cluster, restarts it in any case, and compares the prediction with the result."""

from __future__ import annotations

import time

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Struct, field
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.run import run_check
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.comparison import compare_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import Distribution, listed_by_key
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.verdict import COLLAPSED, ROLLING, SKEWED

from tests.integration.prediction.case_world import CaseWorld
from tests.integration.prediction.random_case import NAMESPACE, CaseWorkload, RandomCase
from tests.integration.prediction.restart import Restart

Counts = dict[str, dict[str, int]]

SETTLED_WITHIN_S = 20.0
ENDED_WITHIN_S = 90.0
"""A prediction awaits only pods whose grace period ends within a minute."""
POLL_S = 0.2
UNFINISHED = "unfinished"
"""The outcome of a restart whose rollout does not end."""
PREEMPTED = "preempted"
"""The outcome of a restart for which the scheduler ended pods of other workloads."""


class Compared(Struct, frozen=True):
    """The prediction for one workload and the result of its restart.

    ``outcome`` is that of k8s_rollout_restart, UNFINISHED or PREEMPTED. ``expected`` is empty if there is no expectation. All counts are
    without empty domains.
    """

    workload: str
    helps: bool | None
    reasons: list[str]
    verdict: str
    before: Counts
    expected: Counts
    after: Counts
    outcome: str
    seconds: float


class CaseResult(Struct, frozen=True):
    """The results of a random cluster. ``even``: so many of its workloads were not uneven when it was their turn."""

    seed: int
    nodes: int
    profiles: str
    seconds: float
    even: int = 0
    is_full: bool = False
    workloads: list[Compared] = field(default_factory=list)


def run_case(case: RandomCase, world: CaseWorld, api: KubeApi) -> CaseResult:
    """Create the cluster, and check and restart its workloads one after the other."""
    began = time.monotonic()
    with world.created(case) as scheduler_config:
        checks = _Checks(api, case, scheduler_config)
        found = [checks.compare(workload, world) for workload in case.workloads]
    compared = [one for one in found if one is not None]
    seconds = round(time.monotonic() - began, 1)
    return CaseResult(case.seed, len(case.nodes), case.profiles_kind, seconds, len(found) - len(compared), case.is_full, compared)


class _Checks:
    def __init__(self, api: KubeApi, case: RandomCase, scheduler_config: tuple[str, ...]) -> None:
        self._api = api
        self._case = case
        self._scheduler_config = scheduler_config

    def compare(self, workload: CaseWorkload, world: CaseWorld) -> Compared | None:
        """Return the comparison for one workload. None if it is not uneven."""
        began = time.monotonic()
        others, before = self._settled_check(workload)
        if before.verdict.verdict not in (COLLAPSED, SKEWED):
            return None
        prediction = before.prediction
        assert prediction is not None
        outcome, after = UNFINISHED, None
        if prediction.awaits_ends:
            self._wait_for_ends()
        if Restart(self._api, workload, awaits_ends=self._case.awaits_ends).run():
            snapshot, report = self._settled_check(workload)
            after = self._over_same_nodes(snapshot, report, before)
            preempted = _pods_of_others(others, before) - {pod.metadata.uid for pod in snapshot.pods if not pod.terminating}
            outcome = PREEMPTED if preempted else compare_spread(before.distributions, after)
        else:
            world.delete_workload(workload)
        return Compared(
            f"{workload.kind} {workload.name}",
            prediction.restart_helps,
            [blocker.reason.code for blocker in prediction.blockers],
            before.verdict.verdict,
            _filled(listed_by_key(before.distributions)),
            _filled(prediction.expected),
            _filled(listed_by_key(after)) if after is not None else {},
            outcome,
            round(time.monotonic() - began, 1),
        )

    def _wait_for_ends(self) -> None:
        """Wait until the pods that are terminating have ended, as k8s_rollout_restart does."""
        deadline = time.monotonic() + ENDED_WITHIN_S
        while any(pod.terminating for pod in self._api.list_all(PODS, namespace=NAMESPACE)):
            assert time.monotonic() < deadline, "pods are terminating"
            time.sleep(POLL_S)

    def _settled_check(self, workload: CaseWorkload) -> tuple[ClusterSnapshot, WorkloadReport]:
        """Check the workload when its status is up to date."""
        options = CheckOptions(
            namespaces=(NAMESPACE,),
            namespace_annotations=(),
            label_selectors=(),
            kinds=(workload.kind,),
            topology_keys=self._case.topology_keys,
            max_skew=self._case.max_skew,
            min_ready_nodes=1,
            scheduler_config=self._scheduler_config,
        )
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while True:
            snapshot, report = run_check(self._api, options)
            (found,) = [one for one in report.workloads if one.workload.metadata.name == workload.name]
            if found.verdict.verdict != ROLLING:
                return snapshot, found
            assert time.monotonic() < deadline, f"{workload.name} is rolling: {found.verdict}"
            time.sleep(POLL_S)

    def _over_same_nodes(self, snapshot: ClusterSnapshot, report: WorkloadReport, before: WorkloadReport) -> list[Distribution]:
        """Return the distributions over the nodes that were eligible before, as k8s_rollout_restart does."""
        node_names = [pod.spec.node_name for pod in snapshot.placed_pods(report.workload)]
        return snapshot.once(Topology.of).distribute_over(self._case.topology_keys, node_names, before.eligible)


def _pods_of_others(snapshot: ClusterSnapshot, report: WorkloadReport) -> set[str]:
    own = {pod.metadata.uid for pod in snapshot.owned_pods(report.workload)}
    return {pod.metadata.uid for pod in snapshot.pods if not pod.terminating} - own


def _filled(counts: Counts) -> Counts:
    return {key: {domain: count for domain, count in sorted(domains.items()) if count} for key, domains in counts.items()}
