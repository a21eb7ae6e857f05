# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What cannot be judged yet: it is said, and never passed over as a yes.

Every entry here goes when its rule comes.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Container, Namespace, Node, Pod, PodAffinityTerm
from ..model.reasons import Reason
from ..model.selectors import matches
from ..model.sharing import binds_to_nodes
from .placement import Placement, pod_key, required_anti_affinity
from .reasons import PASSED, Reasons
from .rules.node_resources import DEVICE_CLASS_PREFIX

NOMINATED = Reason("nominated_pod", "the node is promised to a pending pod of the same or higher priority")
EXISTING_ANTI_AFFINITY = Reason("existing_pod_anti_affinity", "required anti-affinity of pods in the node's domain may be against the pod")
_FOREIGN_SCHEDULER = Reason("foreign_scheduler", "the pod is for another scheduler")
_PODS_NOT_READABLE = Reason("pods_not_readable", "pods of some namespaces could not be read, so the room on nodes is not known")

_LIMIT_RANGE = Reason("limit_range", "a LimitRange of the namespace adds requests that the template does not have")


def pod_doubts(pod: Pod, placement: Placement, schedulers: frozenset[str]) -> Reasons:
    """What of the pod, or of the snapshot as a whole, cannot be judged."""
    found = [reason for applies, reason in _OF_POD if applies(pod)]
    if pod.spec.scheduler_name not in schedulers:
        found.append(_FOREIGN_SCHEDULER)
    if _awaits_defaults(pod, placement):
        found.append(_LIMIT_RANGE)
    if not placement.snapshot.complete_pods:
        found.append(_PODS_NOT_READABLE)
    return tuple(found)


def prepare(pod: Pod, placement: Placement) -> t.Callable[[Node], Reasons] | None:
    """What cannot be judged on a node that every known rule has passed."""
    closed = domains_of_existing_anti_affinity(pod, placement)
    promised = {name for name, others in placement.nominations().items() if any(_goes_first(other, pod) for other in others)}
    if not closed and not promised:
        return None

    def check(node: Node) -> Reasons:
        nominated = node.name in promised
        repelled = any(node.labels.get(key) in values for key, values in closed.items())
        if not nominated and not repelled:
            return PASSED
        return (*((NOMINATED,) if nominated else ()), *((EXISTING_ANTI_AFFINITY,) if repelled else ()))

    return check


# --- the pod ----------------------------------------------------------------------------------------------------------


def _has_pod_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return False
    return bool(affinity.pod_affinity.required_during_scheduling_ignored_during_execution)


def _claims_devices(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    requests = (container.resources.requests for container in containers if container.resources is not None)
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
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return any(defaults - _asked_for(container) for container in containers)


def _asked_for(container: Container) -> set[str]:
    resources = container.resources
    return set() if resources is None else {*(resources.requests or ()), *(resources.limits or ())}


_OF_POD: tuple[tuple[t.Callable[[Pod], bool], Reason], ...] = (
    (
        lambda pod: bool(pod.spec.scheduling_gates),
        Reason("scheduling_gates", "Scheduling is blocked due to non-empty scheduling gates"),
    ),
    (
        lambda pod: any(binds_to_nodes(volume) for volume in pod.spec.volumes or ()),
        Reason("volumes", "volumes of the pod may bind it to nodes"),
    ),
    (_has_pod_affinity, Reason("pod_affinity", "required pod affinity is not judged")),
    (
        lambda pod: bool(required_anti_affinity(pod)),
        Reason("pod_anti_affinity", "required pod anti-affinity is not judged"),
    ),
    (_claims_devices, Reason("resource_claims", "resource claims are not judged")),
    (
        lambda pod: pod.spec.scheduling_group is not None,
        Reason("scheduling_group", "the pod is scheduled together with others"),
    ),
    (_awaits_runtime_class, Reason("runtime_class", "what the runtime class adds to the pod is not known")),
)


# --- the node ---------------------------------------------------------------------------------------------------------


def _goes_first(nominated: Pod, pod: Pod) -> bool:
    """The scheduler keeps room for nominated pods of at least the pod's priority; a template's priority is not known."""
    if (pod.metadata.uid or pod.metadata.name) and pod_key(nominated) == pod_key(pod):
        return False
    return pod.spec.priority is None or (nominated.spec.priority or 0) >= pod.spec.priority


def domains_of_existing_anti_affinity(pod: Pod, placement: Placement) -> dict[str, set[str]]:
    """Topology key to the domains in which required anti-affinity of other pods is, or may be, against the pod."""
    closed: dict[str, set[str]] = {}
    keys_of: dict[tuple[int, str], list[str]] = {}
    for other, node in placement.pods_with_anti_affinity():
        # The pods of one workload share their affinity, so that each is compared once.
        source = (id(other.spec.affinity), other.metadata.namespace)
        if source not in keys_of:
            terms = required_anti_affinity(other)
            namespaces = placement.snapshot.namespaces
            keys_of[source] = [term.topology_key for term in terms if _may_select(term, other, pod, namespaces)]
        for key in keys_of[source]:
            _add_domain(closed, key, node)
    return closed


def _add_domain(closed: dict[str, set[str]], key: str, node: Node) -> None:
    domain = node.labels.get(key)
    if domain is not None:
        closed.setdefault(key, set()).add(domain)


def _may_select(term: PodAffinityTerm, owner: Pod, pod: Pod, namespaces: dict[str, Namespace]) -> bool:
    """Whether the term selects the pod, or may do so because the labels of its namespace are not known."""
    if not matches(term.label_selector, pod.metadata.labels):
        return False
    namespace = pod.metadata.namespace
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.metadata.namespace
    if namespace in (term.namespaces or ()):
        return True
    if term.namespace_selector is None:
        return False
    known = namespaces.get(namespace)
    return known is None or matches(term.namespace_selector, known.metadata.labels)
