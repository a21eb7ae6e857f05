# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A listener that keeps what the sources pass to it, and a clock that a test moves forward."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable

from ansible_collections.onprem.kube_scheduling.services.extender.interface import (
    NodeView,
    Rate,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import Outcome
from ansible_collections.onprem.kube_scheduling.services.extender.sources.refresher import Sources
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

RECEIVED = Rate("received", 60)
WAIT_S = 20.0

Make = Callable[..., Sources]
"""Makes sources of the servers of the test, for the queries that it receives."""


class Listener:
    """Keeps what it receives. ``error`` is raised by ``on_view``."""

    def __init__(self) -> None:
        self.views: list[ClusterView] = []
        self.nodes: list[NodeView] = []
        self.outcomes: list[Outcome] = []
        self.error: Exception | None = None
        self.came = threading.Condition()

    def on_view(self, view: ClusterView) -> None:
        self._keep(self.views, view)
        if self.error is not None:
            raise self.error

    def on_node(self, node: NodeView) -> None:
        self._keep(self.nodes, node)

    def on_outcome(self, outcome: Outcome) -> None:
        self._keep(self.outcomes, outcome)

    def _keep(self, kept: list[t.Any], item: t.Any) -> None:
        with self.came:
            kept.append(item)
            self.came.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.came:
            assert self.came.wait_for(condition, WAIT_S)


class Clock:
    """A clock that a test moves forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s
