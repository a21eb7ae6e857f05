# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What of a pod, or of the snapshot, cannot be judged: it is said, and never passed over as a yes.

Doubts about single nodes come from the rule's own file, from ``volume_doubts`` and from ``device_doubts``.
"""

from __future__ import annotations

import typing as t

from ..model.objects import DEVICE_CLASS_PREFIX, Container, Pod
from ..model.reasons import Reason
from .placement import Placement
from .profile import Profiles
from .reasons import Reasons

NOMINATED: Reasons = (Reason("nominated_pod", "the node is promised to a pending pod, which may go before this one"),)
_FOREIGN_SCHEDULER = Reason("foreign_scheduler", "the pod is for another scheduler")
_PODS_NOT_READABLE = Reason("pods_not_readable", "pods of some namespaces could not be read, so the room on nodes is not known")

_LIMIT_RANGE = Reason("limit_range", "a LimitRange of the namespace adds requests that the template does not have")


def pod_doubts(pod: Pod, placement: Placement, profiles: Profiles) -> Reasons:
    """What of the pod, or of the snapshot as a whole, cannot be judged."""
    found = [reason for applies, reason in _OF_POD if applies(pod)]
    if pod.spec.scheduler_name not in profiles:
        found.append(_FOREIGN_SCHEDULER)
    if _awaits_defaults(pod, placement):
        found.append(_LIMIT_RANGE)
    if not placement.snapshot.complete_pods:
        found.append(_PODS_NOT_READABLE)
    volumes = placement.volumes_of(pod)
    if volumes is not None:
        found.extend(volumes.doubts)
    return tuple(found)


# --- the pod ----------------------------------------------------------------------------------------------------------


def _claims_devices(pod: Pod) -> bool:
    requests = (container.resources.requests for container in pod.spec.all_containers if container.resources is not None)
    return bool(pod.spec.resource_claims) or any(name.startswith(DEVICE_CLASS_PREFIX) for names in requests for name in names or ())


def _awaits_runtime_class(pod: Pod) -> bool:
    # Admission adds the class's overhead, node selector and tolerations when the pod is created.
    return bool(pod.spec.runtime_class_name) and not pod.metadata.uid and pod.spec.overhead is None


def _awaits_defaults(pod: Pod, placement: Placement) -> bool:
    """Admission will fill requests in when the pod is created (a pod that exists has them already)."""
    if pod.metadata.uid:
        return False
    defaults: set[str] = set()
    for limit_range in placement.snapshot.limit_ranges_by_namespace.get(pod.metadata.namespace, ()):
        for item in limit_range.spec.limits or ():
            if item.type == "Container":
                defaults.update(item.default_request or (), item.default or ())
    return any(defaults - _asked_for(container) for container in pod.spec.all_containers)


def _asked_for(container: Container) -> set[str]:
    resources = container.resources
    return set() if resources is None else {*(resources.requests or ()), *(resources.limits or ())}


_OF_POD: tuple[tuple[t.Callable[[Pod], bool], Reason], ...] = (
    (
        lambda pod: bool(pod.spec.scheduling_gates),
        Reason("scheduling_gates", "Scheduling is blocked due to non-empty scheduling gates"),
    ),
    (_claims_devices, Reason("resource_claims", "resource claims are not judged")),
    (
        lambda pod: pod.spec.scheduling_group is not None,
        Reason("scheduling_group", "the pod is scheduled together with others"),
    ),
    (_awaits_runtime_class, Reason("runtime_class", "what the runtime class adds to the pod is not known")),
)
