# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The holds of the cluster. Each of them is kept, taken over or released."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, NotFoundError, is_permission_error, is_transient
from ...kube.client.resources import NODES
from ...model.snapshot import ClusterSnapshot
from ...rescue.held_nodes import HeldNode, held_nodes
from ...state.hold import Hold, Json, JsonPatch, hold_note, hold_patch, holds_in, release_patch
from ..common.guarded_patch import MAX_TRIES, write_guarded
from .environment import ReconcileView, RescueEnvironment
from .requests import withdraw
from .task import WATCHED, RescueTask

RETRY_S = 1.0
"""Seconds until ``reconcile`` repeats writes, after one of them has failed."""
SHOWN_FOR_S = 60.0
"""Seconds for which the watch may still show a hold that was released. After that, the same hold is a new one."""


class NodeTakenError(KubeError):
    """The node is held for another pod, or is gone."""


class Holds:
    """Places holds on nodes and releases nodes.

    ``own``: the holds that this program has placed or taken over, by node name. ``expired``: nodes whose hold has ended and is still on the
    node. ``orphaned``: held nodes that no task clears for their pod.
    """

    def __init__(self, environment: RescueEnvironment) -> None:
        self.own: dict[str, Hold] = {}
        self.expired: list[str] = []
        self.orphaned: list[str] = []
        self._api, self._events = environment.api, environment.events
        self._observer, self._writer = environment.observer, environment.writer
        self._released: dict[str, tuple[Hold, float]] = {}
        self._retry_at_s = 0.0
        self._active_cache: t.Optional[tuple[ClusterSnapshot, dict[str, Hold], list[HeldNode]]] = None

    def place(self, held: HeldNode, *, now_s: float, dry_run: bool = False) -> None:
        """Place the hold on the node. Raise NodeTakenError, NodeChangesError and KubeError; after a permanent one it is not there."""
        name, hold = held.node.name, held.hold
        if not dry_run:
            self._released.pop(name, None)
            self.own[name] = hold
        note = hold_note(held.pod, hold, writer=self._writer, since_s=now_s) if held.pod is not None else ""
        place_hold(self._api, name, hold, note, dry_run=dry_run)

    def reconcile(self, view: ReconcileView, tasks: Mapping[str, RescueTask]) -> list[HeldNode]:
        """Release holds that are no longer needed. Return the holds of pods whose rescue no program continues, to be taken over."""
        self.expired, self.orphaned = [], []
        left, tries = [], view.may_write and view.now_at_s >= self._retry_at_s
        for held in self.active(view.snapshot, tasks):
            name, task = held.node.name, tasks.get(held.uid)
            if _has_expired(held, task, view):
                if not (tries and self.release(held)):
                    self.expired.append(name)
            elif task is not None and task.stage == WATCHED:
                if view.may_write:
                    left.append(held)
                else:
                    self.orphaned.append(name)
        return left

    def active(self, snapshot: ClusterSnapshot, tasks: Mapping[str, RescueTask]) -> list[HeldNode]:
        """Return the held nodes, without the holds that this program has released and that the watch still shows."""
        now_at_s = time.monotonic()
        self._released = {name: one for name, one in self._released.items() if now_at_s < one[1] + SHOWN_FOR_S}
        released = {name: hold for name, (hold, _at_s) in self._released.items()}
        known = self._active_cache
        if known is None or known[0] is not snapshot or known[1] != released:
            held = held_nodes(snapshot, (task.pod for task in tasks.values()), without=released)
            known = self._active_cache = snapshot, released, list(held.values())
        return known[2]

    def release(self, held: HeldNode, *, waits: bool = True) -> bool:
        """Remove exactly this hold. Return False if that could not be written. ``waits``: the hold's pod may still be nominated."""
        name = held.node.name
        try:
            if waits:
                self._withdraw(held)
            was_there = release_hold(self._api, name, held.hold)
        except KubeError as error:
            self._observer.on_error(f"node {name} is not released yet: {error}")
            self._retry_at_s = time.monotonic() + RETRY_S
            return False
        self._released[name] = held.hold, time.monotonic()
        self.own.pop(name, None)
        if was_there:
            self._observer.on_released(held)
            self._events.on_node(held.node, "RescueHoldReleased", f"no longer held for {held.pod_text}")
        return True

    def _withdraw(self, held: HeldNode) -> None:
        if held.pod is None or held.pod.spec.node_name:
            return
        try:
            withdraw(self._api, held.pod.metadata, held.node.name)
        except KubeError as error:
            if is_transient(error):
                raise
            if not is_permission_error(error):  # otherwise the pod was never nominated
                # The node must not wait for an error that lasts. The scheduler clears the nomination after its next try.
                self._observer.on_error(f"pod {held.pod_name} is still nominated for node {held.node.name}: {error}")


def _has_expired(held: HeldNode, task: t.Optional[RescueTask], view: ReconcileView) -> bool:
    """Return whether no program continues the rescue on the node."""
    if task is not None and task.is_clearing and task.clearing.node == held.node.name:
        return False  # the end of the task releases the node
    if held.hold.deadline_s < view.now_s:
        return True
    if task is not None:
        # Another node is being cleared for the task, or this one was cleared without effect, or the task has ended.
        return task.stage != WATCHED or held.node.name in task.excluded_nodes
    pod = held.pod
    return pod is None or bool(pod.spec.node_name) or pod.terminating or pod.terminal


class NodeChangesError(KubeError):
    """The taints of the node change too often to write or remove a hold."""


def place_hold(api: KubeApi, node_name: str, hold: Hold, note: str, *, dry_run: bool = False) -> None:
    """Place the hold on the node, in addition to all its taints.

    It replaces an older hold for the same pod. Raise NodeTakenError, NodeChangesError and KubeError; the node is unchanged then.
    """

    def operations(node: Json) -> JsonPatch:
        found = holds_in(node)
        if hold in found:
            return []  # only the answer was lost
        other = next((one for one in found if one.pod_hash != hold.pod_hash), None)
        if other is not None:
            raise NodeTakenError(f"node {node_name} is held for another pod, until {other.deadline} at most")
        return hold_patch(node, hold, note)

    try:
        _patch(api, node_name, operations, dry_run=dry_run)
    except NotFoundError as error:
        raise NodeTakenError(f"node {node_name} is gone") from error


def release_hold(api: KubeApi, node_name: str, hold: Hold) -> bool:
    """Remove exactly this hold. Return whether it was there. A node that is gone has no hold. Raise NodeChangesError and KubeError."""
    try:
        return _patch(api, node_name, lambda node: release_patch(node, hold))
    except NotFoundError:
        return False


def _patch(api: KubeApi, node_name: str, operations_for: t.Callable[[Json], JsonPatch], *, dry_run: bool = False) -> bool:
    """Send the operations for the node as it is now. Return whether there were any."""
    is_needed = False

    def write(node: Json) -> None:
        nonlocal is_needed
        operations = operations_for(node)
        is_needed = bool(operations)
        if is_needed:
            api.json_patch(NODES, "", node_name, operations, dry_run=dry_run)

    try:
        write_guarded(lambda: api.get_plain(NODES, "", node_name), write, lambda node: not operations_for(node))
    except ConflictError as error:
        changed = f"its taints or its hold annotation changed {MAX_TRIES} times meanwhile"
        text = f"the hold of node {node_name} is neither written nor removed: {changed}"
        raise NodeChangesError(text) from error
    return is_needed
