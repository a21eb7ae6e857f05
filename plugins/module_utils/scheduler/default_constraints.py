# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The constraints that a profile gives to pods without topology spread constraints.

Source: kubernetes ``plugins/podtopologyspread/common.go`` (buildDefaultConstraints) and ``plugins/helper/spread.go`` (DefaultSelector). The
scheduler derives their selector from the pod's ReplicaSet or StatefulSet, and from the Services that select the pod. A Service selects all
pods of a template alike, so it does not change the pods that are counted.
"""

from __future__ import annotations

from ..model.api.meta import LabelSelector
from ..model.api.pod import Pod
from ..model.codec import replace
from ..model.reason import PASSED, Reason, Reasons
from ..model.scheduler_profile import SchedulerProfile
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME

SPREAD = "PodTopologySpread"
_NO_SELECTOR: Reasons = (
    Reason("default_constraints", "the scheduler's default constraints count the pods of a Service or a controller that was not read"),
)


def with_default_constraints(pod: Pod, profile: SchedulerProfile, snapshot: ClusterSnapshot) -> tuple[Pod, Reasons]:
    """Return the pod with the profile's default constraints, and the reason why the pods that they count are not known."""
    if not profile.default_constraints or pod.spec.topology_spread_constraints or not profile.filters_by(SPREAD):
        return pod, PASSED
    selector = _selector_of(pod, snapshot)
    if selector is None:
        return pod, _NO_SELECTOR
    constraints = tuple(replace(constraint, label_selector=selector) for constraint in profile.default_constraints)
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints)), PASSED


def _selector_of(pod: Pod, snapshot: ClusterSnapshot) -> LabelSelector | None:
    """Return the selector of the pod's controller. A pod of a template has no controller, but the labels that its controller adds."""
    labels, owner = pod.metadata.labels or {}, pod.metadata.controller
    if owner is not None and (owner.group != "apps" or owner.kind not in ("ReplicaSet", "StatefulSet")):
        return None
    if POD_TEMPLATE_HASH in labels and (owner is None or owner.kind == "ReplicaSet"):
        return LabelSelector(match_labels={POD_TEMPLATE_HASH: labels[POD_TEMPLATE_HASH]})
    if owner is not None:
        known = snapshot.all_replica_sets if owner.kind == "ReplicaSet" else snapshot.stateful_sets
        return next((one.spec.selector for one in known if one.metadata.uid == owner.uid), None)
    name = labels.get(STATEFUL_SET_POD_NAME, "").rpartition("-")[0]
    key = pod.metadata.namespace, name
    return next((one.spec.selector for one in snapshot.stateful_sets if name and (one.metadata.namespace, one.metadata.name) == key), None)
