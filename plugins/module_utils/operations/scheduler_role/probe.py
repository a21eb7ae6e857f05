# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods with which the profiles of a scheduler are tried."""

from __future__ import annotations

import uuid

from ...kube.client.resources import PODS
from ..apply_set.cluster import ObjectsApi, ObjectsError, delete_found
from ..apply_set.objects import Json, Reference, reference_of
from ..apply_set.polling import polled

LEADER_WITHIN_S = 30
EVENT_WITHIN_S = 15
"""Seconds. The scheduler writes the Event after the pod has its node."""


def probe_of(pod: Json, profile: str) -> Json:
    """Return a new pod of a profile, which has the fields of ``pod``."""
    name = f"kube-scheduling-probe-{uuid.uuid4().hex[:10]}"
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": {**pod["spec"], "schedulerName": profile}}


def wait_for_leader(api: ObjectsApi, namespace: str, name: str) -> None:
    """Wait until a scheduler holds the Lease."""
    lease = Reference("coordination.k8s.io/v1", "Lease", namespace, name)
    if not polled(lambda: _spec(api, lease).get("holderIdentity"), bool, LEADER_WITHIN_S):
        raise ObjectsError(f"After {LEADER_WITHIN_S} s nobody holds the Lease {namespace}/{name}.")


def bind(api: ObjectsApi, probe: Json, *, timeout_s: float, log: str) -> str:
    """Create a pod, wait until the scheduler has bound it, and delete it. Return a sentence about it.

    ``log`` is the command that shows the log of the scheduler.
    """
    profile = probe["spec"]["schedulerName"]
    node, found = _bound(api, probe, timeout_s)
    if node and not found:
        # The scheduler may have ended before it wrote the Event, as the earlier leader does in a roll-out.
        again = {**probe["metadata"], "name": f"{probe['metadata']['name']}-again"}
        node, found = _bound(api, {**probe, "metadata": again}, timeout_s)
    said = " ".join(str(event.get("message") or "") for event in found)
    if not node:
        raise ObjectsError(
            f"The scheduler has not bound a pod of the profile {profile} after {timeout_s} s ({said or 'it has no Event'}). See {log}"
        )
    if not found:
        raise ObjectsError(f"A pod of the profile {profile} was bound to {node}, and it has no Event Scheduled. See {log}")
    reporter = found[0].get("reportingComponent") or (found[0].get("source") or {}).get("component")
    if reporter != profile:
        raise ObjectsError(
            f"The Event of a pod of the profile {profile} names {reporter} as its scheduler. Remove the other scheduler, or choose "
            "another name for the profile"
        )
    return f"{profile} has bound a pod to {node}: {said}"


def _bound(api: ObjectsApi, probe: Json, timeout_s: float) -> tuple[str, list[Json]]:
    """Create a pod, wait until it is bound, and delete it. Return its node and its Events: those of the binding if it was bound."""
    pod = reference_of(probe)

    def events(reason: str = "") -> list[Json]:
        return api.list_plain("v1", "Event", namespace=pod.namespace, fields=f"involvedObject.name={pod.name}{reason}")

    try:
        api.create_once(PODS, pod.namespace, probe)
        node = polled(lambda: _spec(api, pod).get("nodeName") or "", bool, timeout_s)
        return node, polled(lambda: events(",reason=Scheduled"), bool, EVENT_WITHIN_S) if node else events()
    finally:
        delete_found(api, [pod])


def _spec(api: ObjectsApi, reference: Reference) -> Json:
    return (api.find(reference) or {}).get("spec") or {}
