# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The restart of one workload, and the end of its rollout."""

from __future__ import annotations

import itertools
import time

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS, WORKLOADS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import DONE, rollout_progress

from tests.integration.prediction.random_case import NAMESPACE, CaseWorkload
from tests.integration.workloads import RESTARTED_AT

POLL_S = 0.1
STUCK_AFTER_S = 5.0
"""A rollout without a change for so long, with a pod that the scheduler has found no node for, does not end."""
TIMEOUT_S = 120.0

_NUMBERS = itertools.count(1)


class Restart:
    """Restarts a workload as ``kubectl rollout restart`` does. ``awaits_ends``: a rollout has ended when its old pods have ended too."""

    def __init__(self, api: KubeApi, workload: CaseWorkload, *, awaits_ends: bool) -> None:
        self._awaits_ends = awaits_ends
        self._api = api
        self._workload = workload

    def run(self) -> bool:
        """Restart it. Return whether the rollout has ended with all pods placed."""
        annotations = {RESTARTED_AT: f"restart {next(_NUMBERS)} at {time.time():.3f}"}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        self._api.merge_patch(WORKLOADS[self._workload.kind], NAMESPACE, self._workload.name, patch)
        began = changed = time.monotonic()
        last: set[tuple[str, str, bool, bool]] = set()
        while True:
            time.sleep(POLL_S)
            workload: Workload = self._api.get(WORKLOADS[self._workload.kind], NAMESPACE, self._workload.name)
            pods = self._pods()
            now = time.monotonic()
            if self._has_ended(workload, pods):
                return True
            state = {(pod.metadata.uid, pod.spec.node_name, pod.ready, pod.terminating) for pod in pods}
            if state != last:
                last, changed = state, now
            is_waiting = any(not pod.spec.node_name for pod in pods)
            if is_waiting and now - changed > STUCK_AFTER_S:
                return False
            if now - began > TIMEOUT_S:
                raise TimeoutError(f"the rollout of {self._workload.name}: {rollout_progress(workload)}, pods {sorted(state)}")

    def _pods(self) -> list[Pod]:
        pods = self._api.list_all(PODS, namespace=NAMESPACE)
        return [pod for pod in pods if (pod.metadata.labels or {}).get("app") == self._workload.name]

    def _has_ended(self, workload: Workload, pods: list[Pod]) -> bool:
        present = [pod for pod in pods if not pod.terminating]
        if rollout_progress(workload).state != DONE or len(present) != len(self._workload.node_names):
            return False
        return all(pod.ready for pod in present) and (present == pods or not self._awaits_ends)
