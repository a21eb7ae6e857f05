# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds requests of the administrator to an API server that a test has broken.

An API server that has just started denies everything to users outside system:masters. A test whose user is in that group cannot see this.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.api import USER_AGENT
from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster

ADMINISTRATORS = "system:masters"
BROKEN = ("kube-apiserver", "etcd")
"""The components whose end or pause is a fault of the API server."""
TOOLS = (USER_AGENT, "kube-", "kubectl", "kwok", "Go-http-client", "etcd")
"""The prefixes of the user agents of the lab's own programs."""


class Faults:
    """The faults that the tests of one module have injected: for each cluster, from where on its audit log is after the first fault."""

    def __init__(self) -> None:
        self._module: Path | None = None
        self._since: dict[Path, tuple[Cluster, int]] = {}

    def begin(self, module: Path) -> None:
        """A test of this module begins."""
        if module != self._module:
            self._module = module
            self._since.clear()

    def note(self, cluster: Cluster) -> None:
        """A fault is injected now."""
        self._since.setdefault(cluster.folder, (cluster, cluster.audit().mark()))

    def administrators_requests(self) -> list[str]:
        """The requests of programs under test to a broken API server as administrator."""
        return sorted({_text(event) for cluster, mark in self._since.values() for event in _events(cluster, mark) if _is_wrong(event)})

    def watch(self, patches: pytest.MonkeyPatch) -> None:
        """Note each fault that tests inject by the methods of ``Cluster``."""
        for method in ("kill", "pause"):
            patches.setattr(Cluster, method, self._noting(getattr(Cluster, method)))

    def _noting(self, method: Callable[..., None]) -> Callable[..., None]:
        def noting(cluster: Cluster, component: str, **how: Any) -> None:
            if component in BROKEN:
                self.note(cluster)
            method(cluster, component, **how)

        return noting


FAULTS = Faults()


def _events(cluster: Cluster, mark: int) -> list[AuditEvent]:
    return list(cluster.audit().events(since=mark, stages=(STARTED, COMPLETE)))


def _is_wrong(event: AuditEvent) -> bool:
    """Programs under test name themselves. The lab's checks of health do not."""
    return ADMINISTRATORS in event.groups and event.user_agent != "" and not event.user_agent.startswith(TOOLS)


def _text(event: AuditEvent) -> str:
    return f"{event.user_agent}: {event.verb} {event.resource or event.path}"
