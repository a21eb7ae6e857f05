# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""With respect_windows, a pod is not evicted outside of the maintenance window of its workload or namespace."""

from __future__ import annotations

import typing as t
from functools import cached_property, lru_cache

from ...model.api.meta import WORKLOAD_GROUPS, OwnerReference
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...state.maintenance_window import (
    INVALID_WINDOW,
    NO_TIME_ZONES,
    OUTSIDE_WINDOW,
    WINDOW_ANNOTATION,
    AnnotatedWindow,
    InvalidWindowError,
    NoTimeZonesError,
    annotated_window,
    is_inside,
    parse_windows,
)

Annotations = t.Optional[dict[str, str]]

UNKNOWN_WINDOW = Reason(
    "unknown_window",
    "its maintenance window is not known, because its workload or its namespace cannot be read; respect_windows protects it",
)


class MaintenanceWindows:
    """The maintenance windows of the pods of a snapshot at one time.

    ``now_s`` is in seconds since the epoch, by the API server's clock. The snapshot must have the Deployments, StatefulSets and
    ReplicaSets. The workload of a pod is its StatefulSet, the Deployment of its ReplicaSet, or a ReplicaSet without a Deployment. For a pod
    of another controller, or of none, only the window of its namespace counts. A StatefulSet of another API group is another controller.
    """

    def __init__(self, snapshot: ClusterSnapshot, now_s: float) -> None:
        self._snapshot, self._now_s = snapshot, now_s
        self._known: dict[tuple[str, str], t.Optional[Reason]] = {}

    def violation(self, pod: Pod) -> t.Optional[Reason]:
        """Return the reason if the pod may not be evicted now. Pods of one controller share the result."""
        controller = pod.metadata.controller
        uid = controller.uid if controller is not None and _is_workload(controller, "ReplicaSet", "StatefulSet") else ""
        key = pod.metadata.namespace, uid
        if key not in self._known:
            self._known[key] = self._violation_of(*key)
        return self._known[key]

    def _violation_of(self, namespace_name: str, uid: str) -> t.Optional[Reason]:
        own: Annotations = None
        if uid:
            if (namespace_name, uid) not in self._workloads:
                return UNKNOWN_WINDOW
            own = self._workloads[namespace_name, uid]
        namespace = self._snapshot.namespaces.get(namespace_name)
        window = annotated_window(own, namespace.metadata.annotations if namespace is not None else None)
        if window is not None:
            return _violation_at(window, self._now_s)
        return UNKNOWN_WINDOW if namespace is None else None

    @cached_property
    def _workloads(self) -> dict[tuple[str, str], Annotations]:
        """The annotations that count for the pods of each controller, by namespace and uid of the controller.

        A ReplicaSet is missing if its Deployment is not known.
        """
        snapshot = self._snapshot
        owners = {(one.metadata.namespace, one.metadata.uid): one.metadata.annotations for one in snapshot.deployments}
        found = {(one.metadata.namespace, one.metadata.uid): one.metadata.annotations for one in snapshot.stateful_sets}
        for one in snapshot.all_replica_sets:
            key, controller = (one.metadata.namespace, one.metadata.uid), one.metadata.controller
            if controller is None or not _is_workload(controller, "Deployment"):
                found[key] = one.metadata.annotations
            elif (key[0], controller.uid) in owners:
                found[key] = owners[key[0], controller.uid]
        return found


def pod_outside_window_violation(pod: Pod, windows: t.Optional[MaintenanceWindows]) -> t.Optional[Reason]:
    """Return a reason for a pod outside of its maintenance window, or with a window that is not known. None without ``windows``."""
    return windows.violation(pod) if windows is not None else None


def _is_workload(owner: OwnerReference, *kinds: str) -> bool:
    """Return whether the owner is of one of these kinds of Kubernetes itself."""
    return owner.kind in kinds and owner.group in WORKLOAD_GROUPS


def _violation_at(window: AnnotatedWindow, now_s: float) -> t.Optional[Reason]:
    try:
        if is_inside(parse_windows(window.text), now_s):
            return None
    except InvalidWindowError:
        return _reason(INVALID_WINDOW, window.of_namespace)
    except NoTimeZonesError as error:
        return Reason(NO_TIME_ZONES, f"{error}; respect_windows protects it")
    return _reason(OUTSIDE_WINDOW, window.of_namespace)


@lru_cache(maxsize=4)
def _reason(code: str, of_namespace: bool) -> Reason:
    """Return a reason without the text of the annotation, so that the reasons of many pods are few."""
    annotation = f"the annotation {WINDOW_ANNOTATION} of its {'namespace' if of_namespace else 'workload'}"
    text = f"{annotation} cannot be read" if code == INVALID_WINDOW else f"it is outside of its maintenance window, {annotation}"
    return Reason(code, f"{text}; respect_windows protects it")
