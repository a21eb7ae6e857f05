# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a quota or limit range of the namespace would reject every new pod of the workload."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ....model.api.pod import Pod
from ....model.api.workload import Workload
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ...next_pod.next_pod import next_pod
from .limit_range import limit_range_violation
from .pod_resources import admission_key
from .required_resources import required_resources_violation


def admission_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the quota or limit range that rejects every new pod of the workload. None if all admit it."""
    pod = next_pod(workload, snapshot).pod
    key = workload.metadata.namespace, admission_key(pod)
    known = snapshot.once(_known_violations)
    if key not in known:
        known[key] = _new_pod_violation(pod, workload.metadata.namespace, snapshot)
    found = known[key]
    return Reason(found.code, f"{found.text}: no pod of {workload} would be admitted") if found is not None else None


def _known_violations(_snapshot: ClusterSnapshot) -> dict[Hashable, t.Optional[Reason]]:
    """Return an empty cache of violations by namespace and admission key, which ``admission_violation`` fills.

    Pods with equal keys are equal for quotas and limit ranges.
    """
    return {}


def _new_pod_violation(pod: Pod, namespace: str, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    return required_resources_violation(pod, namespace, snapshot) or limit_range_violation(pod, namespace, snapshot)
