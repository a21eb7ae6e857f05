# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a program: it waits for its evictions, records the results of attempts, and releases or keeps the held nodes."""

from __future__ import annotations

import time
import typing as t

from ...kube.client.errors import KubeError
from ...model.api.node import Node
from ...model.reason import Reason
from ...rescue.plan import WAITING
from ...state.hold import Hold
from ..common.leader_lease import LeaseLostError
from .controller import RescueController
from .states import apply
from .task import WATCHED, Event, RescueTask

PENDING_EVICTIONS_POLL_S = 0.05
"""Interval of the check for pending evictions at the end of the program."""


class RescueShutdown:
    """The last steps of a program, for the rescues of one controller. It is a ``LeaderWork`` of the services."""

    def __init__(self, controller: RescueController) -> None:
        self.controller = controller
        environment = controller.environment
        self._cache, self._lease, self._observer = environment.cache, environment.lease, environment.observer
        self._writer, self._dry_run = environment.writer, environment.dry_run
        self._kept: set[str] = set()

    def release_all_holds(self) -> None:
        """Release every held node, whichever program holds it. Raise LeaseLostError and KubeError."""
        self._lease.ensure_held()
        snapshot = self._cache.snapshot()
        self.controller.holds.refresh(snapshot, leading=True)
        for node, hold in self.controller.holds.active(snapshot):
            self.controller.holds.release(node, hold)
        for task in self.controller.tasks.values():
            task.hold, task.nominated_version = None, ""

    def release_own_holds(self) -> None:
        """Release the nodes that this program holds, as last observed. The tasks keep their state. Raise LeaseLostError."""
        view = self.controller.view
        if view is None:
            return
        for task in self.controller.tasks.values():
            if task.uid not in self._kept:
                self.controller.effects.release_node(task, view.snapshot.nodes)
        for node, hold in self._own_holds():
            self._lease.ensure_held()
            self.controller.holds.release(node, hold)

    @property
    def pending_write(self) -> str:
        """The eviction that may still be carried out. The next leader does not know of it, so it must not begin too early."""
        return "an eviction is not answered yet" if self.controller.has_pending_evictions else ""

    def hand_over(self) -> str:
        """Release the holds that this program has not finished. Return an error text about what is left. Raise LeaseLostError."""
        self.release_own_holds()
        left = ", ".join(sorted(self.still_held))
        return f"these nodes were not released; the next leader releases them: {left}" if left else ""

    def abandon(self) -> None:
        """Leave the held nodes to the next leader."""
        self.controller.abandon_holds()

    def keep_holds(self) -> None:
        """Keep the holds of the rescues that have begun. The next program continues these rescues, or releases their nodes.

        The program ends then. Its hold records and attempts are complete, as after the end of a killed program.
        """
        for task in self.controller.clearing:
            self._kept.add(task.uid)
            number = len(task.evicted)
            pods = "1 pod was" if number == 1 else f"{number or 'no'} pods were"
            until = f", which is held for it until {task.hold.deadline} at most" if task.hold is not None else ""
            text = f"{pods} evicted from node {task.node}{until}: run the module again, or run the rescuer, to complete the rescue"
            task.status, task.reason = WAITING, Reason("rescue_begun", f"{text} and to release the node")

    @property
    def still_held(self) -> dict[str, Hold]:
        """The holds of this program that it must release and that are on their nodes as far as it knows, by node name."""
        tasks = [task for task in self.controller.tasks.values() if task.is_finished or (task.is_clearing and task.uid not in self._kept)]
        held = {task.node: task.hold for task in tasks if task.hold is not None}
        return {**{node.name: hold for node, hold in self._own_holds()}, **held}

    @property
    def unrecorded(self) -> list[RescueTask]:
        """The finished tasks whose result this program must still record."""
        return [task for task in self.controller.tasks.values() if self.controller.attempts.must_record(task)]

    def finish_evictions(self, timeout_s: float, *, hurried: t.Callable[[], bool] = lambda: False) -> bool:
        """Wait until no eviction can be carried out any more, and record the evicted pods.

        Return False if that takes longer than ``timeout_s`` seconds or ``hurried`` returns True. The program ends then, so no further node
        is cleared.
        """
        self.controller.accepts_new = False
        end_at_s = time.monotonic() + timeout_s
        while self.controller.has_pending_evictions:
            if hurried() or time.monotonic() > end_at_s:
                return False
            time.sleep(PENDING_EVICTIONS_POLL_S)
        try:
            unclear = [task for task in self.controller.tasks.values() if task.uncertain_evictions]
            if unclear:
                view = self.controller.observe()
                for task in unclear:
                    apply(self.controller.effects, task, Event("unanswered"), view)
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"it is not known which pods were evicted at the end: {error}")
        return True

    def record_open_attempts(self) -> None:
        """Record the results of the attempts whose pods are still unschedulable.

        The program ends then, and no node is being cleared for these pods. Attempts with evicted pods have failed.
        """
        tasks = (task for task in self.controller.tasks.values() if task.stage == WATCHED)
        open_tasks = [task for task in tasks if task.attempt_started and not task.outcome_recorded]
        if not open_tasks or self._dry_run or not self._lease.held:
            return
        try:
            view = self.controller.observe()
            for task in open_tasks:
                self._lease.ensure_held()
                self.controller.attempts.record_outcome(task, view)
                task.outcome_recorded = True
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"the results of attempts could not be written at the end of the run: {error}")

    def _own_holds(self) -> list[tuple[Node, Hold]]:
        """Return the holds that this program has placed or taken over, without those that it keeps at its end."""
        taken_over = {task.uid for task in self.controller.tasks.values() if task.attempt_started}
        own = ((node, hold) for node, hold in self.controller.holds_seen() if hold.writer == self._writer or hold.uid in taken_over)
        return [(node, hold) for node, hold in own if hold.uid not in self._kept]
