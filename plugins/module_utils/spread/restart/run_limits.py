# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of one run: the workloads that it moves, the pods that it evicts altogether, from a node and in a namespace, and the time."""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from copy import copy

from ...model.api.pod import Pod
from ...model.messages import pluralize
from ...model.reason import Reason
from .options import RestartOptions
from .targets import Target

LIMIT_REACHED = "limit_reached"

MOST_TIMEOUTS, LEAST_LIMIT_S = 6, 600
"""The time that one namespace may take of a run: six times ``wait_timeout * max_parallel``, and at least 10 minutes."""


class RunLimits:
    """Counts the restarts and evictions of one run, or in check mode those that it would make, and the time of each namespace.

    A request with an unknown result counts until the end of the run, because the API server may carry it out later. Several requests for
    the same pod count as one.
    """

    def __init__(self, options: RestartOptions) -> None:
        self._options = options
        self._taken_s: defaultdict[str, float] = defaultdict(float)
        self._moves: Counter[Target] = Counter()
        self._pods: set[str] = set()
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()

    def fork(self) -> RunLimits:
        """Return limits with the same counts and times. Later counts of one do not affect the other."""
        other = copy(self)
        other._moves, other._pods = self._moves.copy(), self._pods.copy()
        other._nodes, other._namespaces = self._nodes.copy(), self._namespaces.copy()
        return other

    def of(self, target: Target) -> WorkloadLimits:
        """Return the limits for one workload."""
        return WorkloadLimits(self, target)

    def workload_limit_violation(self, target: Target) -> t.Optional[Reason]:
        """Return the reason why the workload may not be restarted, and no pod of it evicted. None if it may."""
        violation = self._namespace_time_violation(target.namespace)
        if violation is not None:
            return violation
        limit = self._options.max_workloads
        moved = sum(count > 0 for count in self._moves.values())
        if limit is None or moved < limit or self._moves[target] > 0:
            return None
        return _reached("max_workloads", pluralize(limit, "workload"))

    def eviction_limit_violation(self, target: Target, pod: Pod) -> t.Optional[Reason]:
        """Return the reason why the pod of the workload may not be evicted. None if it may, or if its eviction is counted already."""
        if pod.metadata.uid in self._pods:
            return None
        options, node, namespace = self._options, pod.spec.node_name, pod.metadata.namespace
        limits = (
            ("max_evictions", options.max_evictions, sum(self._nodes.values()), ""),
            ("max_evictions_per_node", options.max_evictions_per_node, self._nodes[node], f" for node {node}"),
            (
                "max_evictions_per_namespace",
                options.max_evictions_per_namespace,
                self._namespaces[namespace],
                f" for namespace {namespace}",
            ),
        )
        for name, limit, evicted, where in limits:
            if limit is not None and evicted >= limit:
                return _reached(name, pluralize(limit, "pod"), where)
        return self.workload_limit_violation(target)

    def add_time(self, namespace: str, seconds: float) -> None:
        """Count a time for which the run has waited for a workload of the namespace."""
        self._taken_s[namespace] += seconds

    def add_restart(self, target: Target) -> None:
        """Count a restart of the workload."""
        self._moves[target] += 1

    def add_eviction(self, target: Target, pod: Pod) -> None:
        """Count the eviction of the pod, once."""
        if pod.metadata.uid not in self._pods:
            self._pods.add(pod.metadata.uid)
            self._count(target, pod, 1)

    def remove_eviction(self, target: Target, pod: Pod) -> None:
        """Take back an eviction that was counted and certainly not made."""
        if pod.metadata.uid in self._pods:
            self._pods.remove(pod.metadata.uid)
            self._count(target, pod, -1)

    def _namespace_time_violation(self, namespace: str) -> t.Optional[Reason]:
        most_s = max(LEAST_LIMIT_S, MOST_TIMEOUTS * self._options.wait_timeout_s * self._options.max_parallel)
        taken_s = self._taken_s[namespace]
        if taken_s < most_s:
            return None
        text = f"the workloads of namespace {namespace} have taken {taken_s:.0f} s of this run, and it may take {most_s} s"
        return Reason(LIMIT_REACHED, f"{text}; the next run continues")

    def _count(self, target: Target, pod: Pod, number: int) -> None:
        self._moves[target] += number
        self._nodes[pod.spec.node_name] += number
        self._namespaces[pod.metadata.namespace] += number


class WorkloadLimits(t.NamedTuple):
    """The limits of a run for the evictions of one workload."""

    run: RunLimits
    target: Target

    def violation(self, pod: Pod) -> t.Optional[Reason]:
        """Return the reason why the pod may not be evicted. None if it may."""
        return self.run.eviction_limit_violation(self.target, pod)

    def add(self, pod: Pod) -> None:
        """Count the eviction of the pod."""
        self.run.add_eviction(self.target, pod)

    def remove(self, pod: Pod) -> None:
        """Take back an eviction that was counted and certainly not made."""
        self.run.remove_eviction(self.target, pod)


def _reached(name: str, amount: str, where: str = "") -> Reason:
    return Reason(LIMIT_REACHED, f"the limit {name} ({amount} in a run) is reached{where}")
