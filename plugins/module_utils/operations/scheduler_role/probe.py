# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods with which the profiles of a scheduler are tried."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ...kube.client.resources import PODS
from ..apply_set.cluster import ObjectsApi, ObjectsError
from ..apply_set.objects import Json, Reference, reference_of
from ..apply_set.polling import polled

LEADER_WITHIN_S = 30
EVENT_WITHIN_S = 15
"""Seconds. The scheduler writes the Event after the pod has its node."""


@dataclass(frozen=True)
class Probe:
    """The pods of profiles, which have the fields of ``pod``. ``log`` is the command that shows the log of the scheduler."""

    api: ObjectsApi
    pod: Json
    timeout_s: float = 0
    log: str = ""

    def check(self, profile: str) -> None:
        """Let the API server check a pod that is not created. Raises the errors of a creation."""
        pod = self._pod_of(profile)
        self.api.create(PODS, pod["metadata"]["namespace"], pod, dry_run=True)

    def wait_for_leader(self, namespace: str, name: str) -> None:
        """Wait until a scheduler holds the Lease."""
        lease = Reference("coordination.k8s.io/v1", "Lease", namespace, name)
        if not polled(lambda: self._spec(lease).get("holderIdentity"), bool, LEADER_WITHIN_S):
            raise ObjectsError(f"After {LEADER_WITHIN_S} s nobody holds the Lease {namespace}/{name}.")

    def bind(self, profile: str) -> str:
        """Create a pod, wait until the scheduler has bound it, and delete it. Return a sentence about it."""
        pod = self._pod_of(profile)
        reference = reference_of(pod)
        try:
            self.api.create_once(PODS, reference.namespace, pod)
            node = polled(lambda: self._spec(reference).get("nodeName"), bool, self.timeout_s)
            events = polled(lambda: self._events(reference), bool, EVENT_WITHIN_S) if node else self._events(reference, "")
        finally:
            found = self.api.find(reference)
            if found:
                self.api.delete(reference, found["metadata"]["uid"])
        said = " ".join(str(event.get("message") or "") for event in events)
        if not node:
            raise ObjectsError(
                f"The scheduler has not bound a pod of the profile {profile} after {self.timeout_s} s ({said or 'it has no Event'}). See "
                f"{self.log}"
            )
        if not events:
            raise ObjectsError(f"A pod of the profile {profile} was bound to {node}, and it has no Event Scheduled. See {self.log}")
        reporter = events[0].get("reportingComponent") or (events[0].get("source") or {}).get("component")
        if reporter != profile:
            raise ObjectsError(
                f"The Event of a pod of the profile {profile} names {reporter} as its scheduler. Remove the other scheduler, or choose "
                "another name for the profile"
            )
        return f"{profile} has bound a pod to {node}: {said}"

    def _pod_of(self, profile: str) -> Json:
        name = f"kube-scheduling-probe-{uuid.uuid4().hex[:10]}"
        return {**self.pod, "metadata": {**self.pod["metadata"], "name": name}, "spec": {**self.pod["spec"], "schedulerName": profile}}

    def _spec(self, reference: Reference) -> Json:
        return (self.api.find(reference) or {}).get("spec") or {}

    def _events(self, pod: Reference, reason: str = "Scheduled") -> list[Json]:
        events = self.api.list_plain("v1", "Event", namespace=pod.namespace, fields=f"involvedObject.name={pod.name}")
        return [event for event in events if reason in ("", event.get("reason"))]
