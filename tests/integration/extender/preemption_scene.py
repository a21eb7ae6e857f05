# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random cluster whose critical pods have a second scheduler, which preempts for them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from lab.cluster import Cluster
from tests.integration.rescue.random_clusters import CriticalPod, Group, RandomCluster
from tests.integration.rescue.random_scene import RandomScene
from tests.integration.rescue.scene import SYSTEM, is_ready
from tests.integration.workloads import wait_until

Json = dict[str, Any]

SETTLED_WITHIN_S = 120.0
LONGEST_GRACE_S = 2
NEVER_PREEMPTS = "scene-never"
QUIET_S = 2.0
"""The scheduler tries again after at most 1 s, see the back-off in lab/schedulers/extender.yaml."""


class PreemptionScene(RandomScene):
    """The steps of a case. Its pods and budgets come to the cluster as those of rescues do."""

    def __init__(self, cluster: Cluster, task: RandomCluster, scheduler_name: str) -> None:
        super().__init__(cluster, task)
        self._scheduler_name = scheduler_name

    def preempt_one_by_one(self) -> None:
        """Create each critical pod after the preemption for the one before, when the status of all budgets is current."""
        for critical in self.task.critical:
            self._create_preemptor(critical)
            self.wait_result(critical)
            wait_until(self.budgets_are_current, timeout_s=SETTLED_WITHIN_S, what=f"the budgets of seed {self.task.seed}")

    def preempt_together(self) -> None:
        """Create all critical pods immediately one after another, and wait for the result of each."""
        for critical in self.task.critical:
            self._create_preemptor(critical)
        for critical in self.task.critical:
            self.wait_result(critical)

    def bound(self) -> int:
        """Return the number of critical pods with a node."""
        return sum(bool(self.bound_to(name)) for name in self.critical_names())

    def wait_result(self, critical: CriticalPod) -> None:
        """Wait until the pod is bound, or the scheduler has found no node and nothing changes any more.

        A pod may keep its nomination for a node whose free capacity another pod has taken.
        """
        name = self._whole(critical.name)
        before: list[Any] = [None, 0.0]

        def is_decided() -> bool:
            pod = self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
            others = self.pods()
            if any("deletionTimestamp" in one["metadata"] for one in others):
                return False
            if pod["spec"].get("nodeName"):
                return True
            state = [pod["metadata"]["resourceVersion"], sorted(one["metadata"]["resourceVersion"] for one in others)]
            if state != before[0]:
                before[:] = state, time.monotonic()
            refused = any(one["type"] == "PodScheduled" and one["status"] == "False" for one in pod["status"].get("conditions") or ())
            return refused and time.monotonic() - before[1] > QUIET_S

        wait_until(is_decided, timeout_s=SETTLED_WITHIN_S, what=f"the result for {name} of seed {self.task.seed}")

    def budgets_are_current(self) -> bool:
        """Return whether the status of each budget counts the pods that are healthy now.

        Of two budgets over the same pods the controller keeps only one up to date (disruption.go, getPdbForPod). They are not checked.
        """
        times = Counter(group for budget in self.task.budgets for group in budget.groups)
        groups = {budget.name: budget.groups for budget in self.task.budgets if all(times[group] == 1 for group in budget.groups)}
        pods = self.pods()
        for budget in self.budgets():
            if budget["metadata"]["name"] not in groups:
                continue
            covered = [pod for pod in pods if pod["metadata"]["labels"]["app"] in groups[budget["metadata"]["name"]]]
            healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in covered)
            if budget["status"]["currentHealthy"] != healthy:
                return False
        return True

    def _template(self, group: Group, selector: Json) -> Json:
        """Return the group's pod.

        It has the same scheduler, because another one would not know that a node is nominated for a pod. It preempts nothing, so that each
        preemption is that of a critical pod. A longer grace period would only add to the time of the test.
        """
        template = super()._template(group, selector)
        template["spec"] |= {
            "schedulerName": self._scheduler_name,
            "terminationGracePeriodSeconds": min(group.grace, LONGEST_GRACE_S),
            **({"priorityClassName": NEVER_PREEMPTS} if group.priority else {}),
        }
        return template

    def _create_preemptor(self, critical: CriticalPod) -> None:
        template = self._critical_template(critical)
        template["metadata"]["name"] = self._whole(critical.name)
        template["spec"]["schedulerName"] = self._scheduler_name
        self._create(f"/api/v1/namespaces/{SYSTEM}/pods", template)
