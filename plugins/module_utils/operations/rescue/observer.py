# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What happens during rescues, for whoever counts or logs it."""

from __future__ import annotations

from ...rescue.plan import Victim
from .task import RescueTask


class RescueObserver:
    """Is told of everything that is done; by itself it does nothing with it."""

    def on_planned(self, task: RescueTask, seconds: float) -> None:
        """A look at the cluster and the judgement of the pod on it took so long."""

    def on_plan_changed(self, task: RescueTask) -> None:
        """What is to be done for the pod has become another."""

    def on_hold(self, task: RescueTask) -> None:
        """A node is held for the pod."""

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        """A pod was evicted for it."""

    def on_released(self, node_name: str, pod_name: str) -> None:
        """A node was given back."""

    def on_finished(self, task: RescueTask) -> None:
        """The case has ended: ``status`` says how."""

    def on_error(self, what: str) -> None:
        """Something could not be written or read; it is tried again, or not needed."""
