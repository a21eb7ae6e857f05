# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Check for a new pod that keeps a rollout from ending, during the wait for the rollout."""

from __future__ import annotations

from ...kube.client.api import KubeApi
from ...kube.client.errors import ForbiddenError
from ...kube.client.resources import PODS, REPLICA_SETS
from ...model.api.meta import LabelSelector
from ...model.api.workload import Workload
from ...model.selectors.label_selector import as_query
from ...model.snapshot import ClusterObjects, ClusterSnapshot
from ...spread.stuck_pods import new_pods, stuck_container


def stuck_container_of_rollout(api: KubeApi, workload: Workload) -> str:
    """Return a text about the container of a new pod that blocks the rollout; empty if there is none or pods may not be read."""
    namespace = workload.metadata.namespace
    selector = as_query(workload.spec.selector or LabelSelector())
    try:
        pods = api.list_all(PODS, namespace=namespace, label_selector=selector)
        # The owners are read after the pods, so the owner of a listed pod is also listed.
        is_deployment = workload.kind == "Deployment"
        replica_sets = api.list_all(REPLICA_SETS, namespace=namespace, label_selector=selector) if is_deployment else []
    except ForbiddenError:
        return ""
    snapshot = ClusterSnapshot(ClusterObjects(pods=pods, deployments=[workload], replica_sets=replica_sets))
    return stuck_container(new_pods(workload, snapshot))
