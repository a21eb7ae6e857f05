# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random cluster whose critical pods have a second scheduler, which preempts for them."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.rescue.random_clusters import CriticalPod, RandomCluster
from tests.integration.rescue.random_scene import RandomScene, is_ready
from tests.integration.rescue.scene import SYSTEM
from tests.integration.workloads import wait_until

Json = dict[str, Any]

SETTLED_WITHIN_S = 60.0


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
        """Wait until the pod is bound, or unschedulable without a nomination."""
        name = self._whole(critical.name)

        def is_decided() -> bool:
            pod = self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")
            if pod["spec"].get("nodeName"):
                return True
            conditions = pod["status"].get("conditions") or ()
            refused = any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
            return refused and not pod["status"].get("nominatedNodeName") and not self._is_clearing()

        wait_until(is_decided, timeout_s=SETTLED_WITHIN_S, what=f"the result for {name} of seed {self.task.seed}")

    def budgets_are_current(self) -> bool:
        """Return whether the status of each budget counts the pods that are healthy now."""
        groups = {budget.name: budget.groups for budget in self.task.budgets}
        pods = self.pods()
        for budget in self.budgets():
            covered = [pod for pod in pods if pod["metadata"]["labels"]["app"] in groups[budget["metadata"]["name"]]]
            healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in covered)
            if budget["status"]["currentHealthy"] != healthy:
                return False
        return True

    def _is_clearing(self) -> bool:
        return any("deletionTimestamp" in pod["metadata"] for pod in self.pods())

    def _create_preemptor(self, critical: CriticalPod) -> None:
        template = self._critical_template(critical)
        template["metadata"]["name"] = name = self._whole(critical.name)
        template["spec"]["schedulerName"] = self._scheduler_name
        self._create(f"/api/v1/namespaces/{SYSTEM}/pods", template)
        self._critical.append(name)
