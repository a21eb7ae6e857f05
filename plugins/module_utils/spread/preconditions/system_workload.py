# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the workload is one of the system, and nothing names it."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_CLASS_PREFIX = "system-"
SYSTEM_PRIORITY = 2_000_000_000
"""The lowest priority of Kubernetes' own classes. Users can make no class above 1,000,000,000."""


def system_workload_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason if the workload is in kube-system or its pods have a system-critical priority. None otherwise."""
    spec = workload.spec.template.spec
    priorities = [pod.spec.priority or 0 for pod in snapshot.current_pods(workload)]
    priority = max([spec.priority or 0, *priorities])
    if workload.metadata.namespace == SYSTEM_NAMESPACE:
        found = f"is in {SYSTEM_NAMESPACE}"
    elif spec.priority_class_name.startswith(SYSTEM_CLASS_PREFIX):
        found = f"has the priority class {spec.priority_class_name}"
    elif priority >= SYSTEM_PRIORITY:
        found = f"has the priority {priority}"
    else:
        return None
    rule = "without an annotation, workloads of the system are moved only if their namespace (namespaces) or they themselves are named"
    return Reason("system_workload", f"it {found}; {rule}")
