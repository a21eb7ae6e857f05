# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods as the sources need them: the node, the demand, the labels, the time of the binding and the outcome."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable, Mapping

from .....plugins.module_utils.kube.client.resources import PODS
from .....plugins.module_utils.model.api.meta import Condition
from .....plugins.module_utils.model.api.pod import ContainerStatus, Pod, PodStatus
from .....plugins.module_utils.model.codec import Struct, field
from .....plugins.module_utils.model.values.quantity_check import check_quantities
from .....plugins.module_utils.model.values.timestamps import read_time
from ...interface import Demand
from ...memory_limits import limited_labels
from .node_objects import Identity
from .pod_demand import demand_of
from .pod_owner import owner_name

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
        found = self._parts.get(frozenset(labels.items()))
        if found is None:
            kept = limited_labels(labels)
            found = self._parts.setdefault(frozenset(kept.items()), {self.text(name): self.text(text) for name, text in kept.items()})
        return t.cast("Mapping[str, str]", found)

    def demand(self, demand: Demand) -> Demand:
        """Return the first demand that was equal to this one."""
        key = (frozenset(demand.requests.items()), demand.ingress_bits_per_s, demand.egress_bits_per_s)
        return t.cast(Demand, self._parts.setdefault(key, demand))

    def keep(self, labels: Mapping[str, str], demand: Demand) -> None:
        """Keep these parts, which another instance has returned."""
        self._parts.setdefault(frozenset(labels.items()), labels)
        for name, text in labels.items():
            self.text(name)
            self.text(text)
        self.demand(demand)


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
