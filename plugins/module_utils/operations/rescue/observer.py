# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Notifications about rescues, for metrics and logs."""

from __future__ import annotations

from ...model.api.node import Node
from ...rescue.plan import Victim
from ...state.hold import Hold
from .task import RescueTask


class RescueObserver:
    """Receives all notifications. The base class ignores them."""

    def on_planned(self, task: RescueTask, seconds: float) -> None:
        """The cluster was observed and the pod was planned, which took ``seconds`` in total."""

    def on_plan_changed(self, task: RescueTask) -> None:
        """The status or the reason of the plan for the pod has changed."""

    def on_hold(self, node: Node, hold: Hold) -> None:
        """The hold was placed. ``node``: as it was before."""

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        """A pod was evicted for the task."""

    def on_released(self, node: Node, hold: Hold) -> None:
        """The hold was removed from the node."""

    def on_finished(self, task: RescueTask) -> None:
        """The task has ended with ``status``."""

    def on_error(self, what: str) -> None:
        """A read or write failed. It is repeated, or it is not required."""
