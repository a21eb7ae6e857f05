# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The availability of a Deployment, and the reasons for which its pods find no node."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from .objects import Json


class Availability(t.NamedTuple):
    """``text`` says which replicas are missing. It is empty if none is missing."""

    ready: bool
    text: str


def availability(deployment: Json, replicas: int) -> Availability:
    """Return whether the Deployment is updated, and not more than one of its replicas is not available.

    One may be missing, because a cluster may have only one node for replicas that need a node each. At least one must be available.
    """
    status = deployment.get("status") or {}
    updated, available = (int(status.get(name) or 0) for name in ("updatedReplicas", "availableReplicas"))
    if int(status.get("observedGeneration") or 0) < int(deployment["metadata"].get("generation") or 1):
        return Availability(False, "its controller has not read it yet")
    if updated != replicas:
        return Availability(False, f"{updated} of {replicas} replicas are updated")
    needed = max(replicas - 1, min(replicas, 1))
    return Availability(available >= needed, f"{available} of {replicas} replicas are available" if available < replicas else "")


def condition_texts(item: Json) -> str:
    """Return the messages of the conditions of an object, each once."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return " ".join(dict.fromkeys(filter(None, (str(condition.get("message") or "") for condition in conditions))))


def unscheduled_texts(pods: Sequence[Json]) -> list[str]:
    """Return a sentence for each reason for which pods find no node."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                reason = str(condition.get("message") or condition.get("reason") or "no reason").rstrip(".")
                found.setdefault(reason, []).append(pod["metadata"]["name"])
    return [f"No node is found for {', '.join(names)}: {reason}." for reason, names in sorted(found.items())]
