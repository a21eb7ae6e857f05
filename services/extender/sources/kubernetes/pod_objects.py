# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods as the sources need them: the node, the demand, the labels, the time of the binding, the outcome, and the name of the owner."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Hashable, Iterable, Mapping

from .....plugins.module_utils.kube.client.resources import PODS
from .....plugins.module_utils.model.api.meta import Condition, OwnerReference
from .....plugins.module_utils.model.api.pod import ContainerStatus, Pod, PodStatus
from .....plugins.module_utils.model.codec import Struct, field
from .....plugins.module_utils.model.values.quantity import QuantityError, parse_quantity, value
from .....plugins.module_utils.model.values.quantity_check import check_quantities
from .....plugins.module_utils.model.values.timestamps import read_time
from .....plugins.module_utils.model.well_known import POD_TEMPLATE_HASH
from .....plugins.module_utils.scheduler.pod_requests import pod_requests
from ...interface import Demand
from ...memory_limits import MAX_NAME, limited_labels, limited_requests
from .node_objects import Identity

INGRESS_BANDWIDTH = "kubernetes.io/ingress-bandwidth"
EGRESS_BANDWIDTH = "kubernetes.io/egress-bandwidth"

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1_000, 10**15
"""Bits per second, 1k and 1P. The bandwidth plugin of Kubernetes refuses a pod whose annotation is outside these limits."""

SCHEDULED_TIME = re.compile(r"-[0-9]{8,}$")
"""The end of the name of a CronJob's Job: minutes since 1970 (kubernetes ``cronjob/utils.go``, getJobName)."""

CRASH_LOOP = "CrashLoopBackOff"
ENDED_PHASES = ("Succeeded", "Failed")


class _Condition(Condition, frozen=True):
    last_transition_time: str | None = None


class _Status(PodStatus, frozen=True):
    start_time: str | None = None
    conditions: tuple[_Condition, ...] | None = None


class WatchedPod(Pod, frozen=True):
    """A pod with the times of its binding. It is decoded and then converted to a ``PodRecord``."""

    status: _Status = field(default_factory=_Status)


POD_RESOURCE = PODS._replace(type=WatchedPod)

POD_FIELD_SELECTOR = "spec.nodeName!=,status.phase!=Succeeded"
"""Pods without a node and finished ones use nothing, and a cluster can have any number of them. They are not watched."""


class PodRecord(Struct, frozen=True, gc=False):
    """One pod. ``bound_time_s``: the time of its binding by the API server's clock, in seconds since the epoch, as far as it is known.

    ``succeeded``: True for a pod that runs and is ready, False for one that failed or restarts again and again, None for all others.
    """

    metadata: Identity
    node: str
    scheduler_name: str
    labels: Mapping[str, str]
    demand: Demand
    bound_time_s: float | None = None
    ended: bool = False
    succeeded: bool | None = None
    owner: str = ""


class SharedParts:
    """Labels, demands and texts that are equal in several pods, kept once.

    ``sys.intern`` is not used for texts of pods, because Python 3.12 never frees such a text. Each Job has new names.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, t.Any] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def text(self, text: str) -> str:
        """Return the first text that was equal to this one."""
        return t.cast(str, self._parts.setdefault(text, text))

    def labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the first labels that were equal to these, within the limits."""
        kept = limited_labels(labels)
        key = frozenset(kept.items())
        if key not in self._parts:
            self._parts[key] = {self.text(name): self.text(text) for name, text in kept.items()}
        return t.cast("Mapping[str, str]", self._parts[key])

    def demand(self, demand: Demand) -> Demand:
        """Return the first demand that was equal to this one."""
        key = (frozenset(demand.requests.items()), demand.ingress_bits_per_s, demand.egress_bits_per_s)
        return t.cast(Demand, self._parts.setdefault(key, demand))

    def retain(self, records: Iterable[PodRecord]) -> None:
        """Remove the parts that none of these records has."""
        used = set[int]()
        for one in records:
            texts = (one.metadata.namespace, one.node, one.scheduler_name, one.owner, *one.labels, *one.labels.values())
            used.update(map(id, (one.labels, one.demand, *texts)))
        self._parts = {key: part for key, part in self._parts.items() if id(part) in used}


def pod_record_of(pod: WatchedPod, shared: SharedParts) -> PodRecord:
    """Return the record of a pod. Raises QuantityError if one of its requests is not a quantity."""
    check_quantities(pod)
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return PodRecord(
        metadata=Identity(metadata.name, shared.text(metadata.namespace), metadata.uid, metadata.resource_version),
        node=shared.text(spec.node_name),
        scheduler_name=shared.text(spec.scheduler_name),
        labels=shared.labels(metadata.labels or {}),
        demand=shared.demand(demand_of(pod, metadata.annotations or {})),
        bound_time_s=_bound_time(pod),
        ended=status.phase in ENDED_PHASES,
        succeeded=_succeeded(status),
        owner=shared.text(owner_name(metadata.controller, metadata.labels or {})),
    )


def _bound_time(pod: WatchedPod) -> float | None:
    """Return the time of the binding: of the condition PodScheduled, else of the pod's start, else of its creation."""
    scheduled = next((entry for entry in pod.status.conditions or () if entry.type == "PodScheduled" and entry.status == "True"), None)
    texts = (scheduled.last_transition_time if scheduled is not None else None, pod.status.start_time, pod.metadata.creation_timestamp)
    return next((time_s for time_s in map(read_time, texts) if time_s is not None), None)


def _succeeded(status: _Status) -> bool | None:
    if status.phase == "Failed":
        return False
    containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    if any(map(_is_in_crash_loop, containers)):
        return False
    is_ready = any(entry.type == "Ready" and entry.status == "True" for entry in status.conditions or ())
    return True if status.phase == "Running" and is_ready else None


def _is_in_crash_loop(status: ContainerStatus) -> bool:
    waiting = status.state.waiting if status.state is not None else None
    return waiting is not None and waiting.reason == CRASH_LOOP


def demand_of(pod: Pod, annotations: Mapping[str, str], *, from_status: bool = True) -> Demand:
    """Return the demand of a pod, with a limited number of resources.

    ``from_status``: as for ``pod_requests``. Raises QuantityError if a request is not a quantity.
    """
    ingress, egress = (_bandwidth(annotations, key) for key in (INGRESS_BANDWIDTH, EGRESS_BANDWIDTH))
    return Demand(limited_requests(pod_requests(pod, from_status=from_status)), ingress, egress)


def _bandwidth(annotations: Mapping[str, str], key: str) -> int | None:
    """Return the bandwidth in bits per second that a pod declares, or None.

    A text that is no quantity, or one that Kubernetes' bandwidth plugin would refuse, counts as absent.
    """
    text = annotations.get(key)
    if text is None:
        return None
    try:
        bits_per_s = value(parse_quantity(text))
    except QuantityError:
        return None
    return bits_per_s if LEAST_BANDWIDTH <= bits_per_s <= MOST_BANDWIDTH else None


def owner_name(controller: OwnerReference | None, labels: Mapping[str, str]) -> str:
    """Return the name of a pod's controller, at most 253 characters of it, or an empty text.

    The name of a ReplicaSet ends with the hash of its revision, and that of a CronJob's Job with its time. Both are removed.
    """
    if controller is None:
        return ""
    name = controller.name[:MAX_NAME]
    if controller.kind == "ReplicaSet" and labels.get(POD_TEMPLATE_HASH):
        return name.removesuffix("-" + labels[POD_TEMPLATE_HASH])
    return SCHEDULED_TIME.sub("", name) if controller.kind == "Job" else name
