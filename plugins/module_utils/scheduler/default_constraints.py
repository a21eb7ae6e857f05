# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The constraints that a profile gives to pods without topology spread constraints.

Source: kubernetes ``plugins/podtopologyspread/common.go`` (buildDefaultConstraints) and ``plugins/helper/spread.go`` (DefaultSelector). The
scheduler derives their selector from the pod's ReplicaSet or StatefulSet, and from the Services that select the pod. For the filters the
Services are ignored: a Service usually selects all pods of a template alike, so it does not change the pods that are counted.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from functools import lru_cache

from ..model.api.meta import Labels, LabelSelector, LabelSelectorRequirement
from ..model.api.pod import Pod, TopologySpreadConstraint
from ..model.codec import replace
from ..model.reason import PASSED, Reason, Reasons
from ..model.scheduler_profile import SchedulerProfile
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import HOSTNAME, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME, ZONE
from .affinity_term_index import AffinityTermIndex

SPREAD = "PodTopologySpread"
SCHEDULE_ANYWAY = "ScheduleAnyway"
_COUNTED_OWNERS = (("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController"))
"""The API groups and the kinds of the controllers whose pods are counted."""
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


class ScoredConstraints(t.NamedTuple):
    """The constraints that change the scores for a pod.

    ``needs_all_keys``: a node without the topology key of one of them gets the lowest score. ``unknown``: the reason why the constraints
    are not known.
    """

    constraints: Sequence[TopologySpreadConstraint]
    needs_all_keys: bool
    unknown: Reasons


def scored_constraints(pod: Pod, profile: SchedulerProfile, snapshot: ClusterSnapshot, groups: AffinityTermIndex) -> ScoredConstraints:
    """Return the constraints of the pod with ScheduleAnyway, or those of the profile if the pod has no constraints at all.

    ``groups``: the pods on nodes.
    """
    own = pod.spec.topology_spread_constraints
    if own:
        return ScoredConstraints([one for one in own if one.when_unsatisfiable == SCHEDULE_ANYWAY], True, PASSED)
    defaults = profile.scores.default_constraints
    constraints = _system_constraints() if defaults is None else defaults
    selector, unknown = _scored_selector(pod, snapshot, groups) if constraints else (None, PASSED)
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return ScoredConstraints((), True, unknown)
    return ScoredConstraints([replace(one, label_selector=selector) for one in constraints], defaults is not None, unknown)


@lru_cache(maxsize=1)
def _system_constraints() -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints of Kubernetes itself (``plugins/podtopologyspread/plugin.go``, systemDefaultConstraints)."""
    return tuple(
        TopologySpreadConstraint(max_skew=max_skew, topology_key=key, when_unsatisfiable=SCHEDULE_ANYWAY)
        for key, max_skew in ((HOSTNAME, 3), (ZONE, 5))
    )


def _scored_selector(pod: Pod, snapshot: ClusterSnapshot, groups: AffinityTermIndex) -> tuple[LabelSelector | None, Reasons]:
    """Return the selector of the Services and of the controller of the pod, or None if there is none or it is not known."""
    owner, by_owner = pod.metadata.controller, _selector_of(pod, snapshot)
    if by_owner is None and owner is not None and (owner.group, owner.kind) in _COUNTED_OWNERS:
        return None, _NO_SELECTOR
    by_services = _service_labels(pod, snapshot)
    if by_services is None:
        # A Service matters only if it selects some of the counted pods and not others.
        is_certain = by_owner is not None and _have_labels(groups, pod, by_owner)
        return (by_owner, PASSED) if is_certain else (None, _NO_SELECTOR)
    if by_owner is None or not by_services:
        return by_owner or LabelSelector(match_labels=by_services), PASSED
    own = [LabelSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in (by_owner.match_labels or {}).items()]
    return LabelSelector(match_labels=by_services, match_expressions=(*own, *(by_owner.match_expressions or ()))), PASSED


def _service_labels(pod: Pod, snapshot: ClusterSnapshot) -> Labels | None:
    """Return the labels that the Services of the pod require. Return None if the Services were not read."""
    labels = pod.metadata.labels or {}
    services = snapshot.services_by_namespace
    if services is None and labels:
        return None
    selectors = [service.spec.selector or {} for service in (services or {}).get(pod.metadata.namespace, ())]
    return {key: value for selector in selectors if selector.items() <= labels.items() for key, value in selector.items()}


def _have_labels(groups: AffinityTermIndex, pod: Pod, selector: LabelSelector) -> bool:
    """Return whether all pods that the selector selects have the labels of the pod. Then each Service selects all of them or none."""
    labels = (pod.metadata.labels or {}).items()
    found = groups.pods_matching(pod.metadata.namespace, selector)
    return all(labels <= (group.pod.metadata.labels or {}).items() for group in found)


def _selector_of(pod: Pod, snapshot: ClusterSnapshot) -> LabelSelector | None:
    """Return the selector of the pod's controller. A pod of a template has no controller, but the labels that its controller adds."""
    labels, owner = pod.metadata.labels or {}, pod.metadata.controller
    if owner is not None and (owner.group != "apps" or owner.kind not in ("ReplicaSet", "StatefulSet")):
        return None
    if POD_TEMPLATE_HASH in labels and (owner is None or owner.kind == "ReplicaSet"):
        return LabelSelector(match_labels={POD_TEMPLATE_HASH: labels[POD_TEMPLATE_HASH]})
    if owner is not None:
        known = snapshot.all_replica_sets if owner.kind == "ReplicaSet" else snapshot.stateful_sets
        name = owner.name
    else:
        known, name = snapshot.stateful_sets, labels.get(STATEFUL_SET_POD_NAME, "").rpartition("-")[0]
    # kube-scheduler does not compare the UID, either (``pkg/scheduler/framework/plugins/helper/spread.go``).
    key = pod.metadata.namespace, name
    return next((one.spec.selector for one in known if name and (one.metadata.namespace, one.metadata.name) == key), None)
