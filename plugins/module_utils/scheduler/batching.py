# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods for which kube-scheduler may reuse the scores of the pod before (feature gate OpportunisticBatching, on by default since 1.35).

If two equal pods follow each other within half a second, and the second one does not fit on the node of the first one, the second one gets
the next node of the first one's ranking. The nodes are not scored again. Source: kubernetes ``pkg/scheduler/framework/runtime/batch.go``.
"""

from __future__ import annotations

from ..model.api.pod import Pod
from ..model.scheduler_profile import SchedulerProfile


def has_reusable_scores(pod: Pod, profile: SchedulerProfile) -> bool:
    """Return whether every plugin can compare two pods like this one by their specs alone (SignPod of the plugins)."""
    affinity, spec = pod.spec.affinity, pod.spec
    has_terms = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    has_constraints = bool(spec.topology_spread_constraints or profile.default_constraints) or profile.scores.default_constraints != ()
    return not (has_terms or has_constraints or spec.resource_claims)
