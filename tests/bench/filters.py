# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The duration of the scheduler's filters for one template on all nodes, for each variant of Deployment.

``python -m tests.bench.filters KUBECONFIG`` prints JSON: by variant the number of ``nodes`` and of ``feasible`` ones, ``first_ms`` and
``again_ms``. Both are CPU times: ``first_ms`` includes counting the pods on the nodes, once for all templates; ``again_ms`` is the median
of later calls.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, find_feasible

from tests.bench.pod_variants import VARIANTS, of_deployment

REPEATED = 15


def main(kubeconfig: str) -> None:
    """Run the filters for one Deployment of each variant."""
    snapshot = read_snapshot(KubeApi(open_transport(user_agent="bench", kubeconfig=kubeconfig)))
    templates = {of_deployment(_number(workload)).name: pod_of_workload(workload) for workload in snapshot.workloads(["Deployment"])}
    print(json.dumps({variant.name: _timed(templates[variant.name], snapshot) for variant in VARIANTS}))


def _timed(template: Pod, snapshot: ClusterSnapshot) -> dict[str, Any]:
    cluster_state = ClusterState.of(snapshot)
    first_ms, found = _filtered_in(template, cluster_state)
    again_ms = statistics.median(_filtered_in(template, cluster_state)[0] for _number in range(REPEATED))
    return {"nodes": len(snapshot.nodes), "feasible": len(found.feasible), "first_ms": first_ms, "again_ms": again_ms}


def _filtered_in(template: Pod, cluster_state: ClusterState) -> tuple[float, Feasibility]:
    started = time.process_time()
    found = find_feasible(template, cluster_state)
    return (time.process_time() - started) * 1000, found


def _number(workload: Workload) -> int:
    return int(workload.metadata.name.rpartition("-")[2])


if __name__ == "__main__":
    main(sys.argv[1])
