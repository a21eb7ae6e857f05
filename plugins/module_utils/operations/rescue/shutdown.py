# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a program: it waits for its evictions, records the results of attempts, and releases or keeps the held nodes."""

from __future__ import annotations

import time
import typing as t

from ...kube.client.errors import KubeError
from ...model.api.node import Node
from ...state.hold import Hold
from ..common.leader_lease import LeaseLostError
from .controller import RescueController
from .task import CLEARING, ENDED, WATCHED, RescueTask

PENDING_EVICTIONS_POLL_S = 0.05
"""Interval of the check for pending evictions at the end of the program."""


class RescueShutdown:
    """The last steps of a program, for the rescues of one controller."""

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
            task.note_released()

    def release_own_holds(self) -> None:
        """Release the nodes that this program holds, as last observed. The tasks keep their state. Raise LeaseLostError."""
        nodes = self.controller.seen_nodes
        if nodes is None:
            return
        for task in self.controller.tasks.values():
            if task.uid not in self._kept:
                self.controller.executor.release_node(task, nodes)
        for node, hold in self._own_holds():
            self._lease.ensure_held()
            self.controller.holds.release(node, hold)

    def keep_holds(self) -> None:
        """Keep the holds of the rescues that have begun. The next program continues these rescues, or releases their nodes.

        The program ends then. Its hold records and attempts are complete, as after the end of a killed program.
        """
        for task in self.controller.in_stage(CLEARING):
            self._kept.add(task.uid)
            task.set_begun()

    @property
    def still_held(self) -> dict[str, Hold]:
        """The holds of this program that it must release and that are on their nodes as far as it knows, by node name."""
        cleared = {
            task.node: task.hold for task in self.controller.in_stage(CLEARING) if task.hold is not None and task.uid not in self._kept
        }
        ended = {task.node: task.hold for task in self.controller.in_stage(ENDED) if task.hold is not None}
        return {**{node.name: hold for node, hold in self._own_holds()}, **ended, **cleared}

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
                    self.controller.executor.resolve_uncertain(task, view)
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"it is not known which pods were evicted at the end: {error}")
        return True

    def record_open_attempts(self) -> None:
        """Record the results of the attempts whose pods are still unschedulable.

        The program ends then, and no node is being cleared for these pods. Attempts with evicted pods have failed.
        """
        open_tasks = [task for task in self.controller.in_stage(WATCHED) if task.attempt_started and not task.outcome_recorded]
        if not open_tasks or self._dry_run or not self._lease.held:
            return
        try:
            view = self.controller.observe()
            for task in open_tasks:
                self._lease.ensure_held()
                self.controller.attempts.record_outcome(task, view)
                task.note_recorded_outcome()
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"the results of attempts could not be written at the end of the run: {error}")

    def _own_holds(self) -> list[tuple[Node, Hold]]:
        """Return the holds that this program has placed or taken over, without those that it keeps at its end."""
        taken_over = {task.uid for task in self.controller.tasks.values() if task.attempt_started}
        own = ((node, hold) for node, hold in self.controller.holds_seen() if hold.writer == self._writer or hold.uid in taken_over)
        return [(node, hold) for node, hold in own if hold.uid not in self._kept]
