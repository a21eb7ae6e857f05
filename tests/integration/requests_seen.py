# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests of the modules in the API server's audit log."""

from __future__ import annotations

from typing import Any

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster

AGENT = "onprem.kube_scheduling/"


def requests_seen(cluster: Cluster, since: int, **wanted: Any) -> list[AuditEvent]:
    """The modules' requests since a mark, as ``AuditLog.events`` has them."""
    return list(cluster.audit().events(since=since, **{"user_agent": AGENT, **wanted}))


def is_watched(cluster: Cluster, since: int, name: str) -> bool:
    """Return whether a module watches the Deployment, or the pods with its name as their label app."""
    signs = (f"metadata.name%3D{name}", f"app%3D{name}")
    events = requests_seen(cluster, since, verb="watch", stages=(STARTED, COMPLETE))
    stages = [event.stage for event in events if any(sign in event.path for sign in signs)]
    return stages.count(STARTED) > stages.count(COMPLETE)
