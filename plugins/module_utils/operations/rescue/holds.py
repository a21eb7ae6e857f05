# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The holds of the cluster. Each of them is proven or not, and is kept, taken over or released."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, NotFoundError, is_permission_error, is_transient
from ...kube.client.resources import NODES
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.snapshot import ClusterSnapshot
from ...rescue.held_nodes import HeldNodes, held_nodes
from ...rescue.options import RescueOptions
from ...state.hold import (
    HOLD_ANNOTATION,
    Hold,
    HoldRecord,
    Json,
    JsonPatch,
    held_for_another,
    hold_annotation,
    hold_patch,
    is_hold_on,
    release_patch,
)
from ..common.config_map_store import NAME, NAMESPACE
from ..common.event_recorder import EventRecorder
from ..common.guarded_patch import MAX_TRIES, write_guarded
from .nomination import Nominator, withdraw
from .observer import RescueObserver
from .records.hold_store import HoldStore, NodeTakenError
from .task import CLEARING, WATCHED, RescueTask

RETRY_S = 1.0


class Holds:
    """Places holds on nodes and releases nodes.

    ``reconcile`` repeats failed writes, because the hold record still exists. ``expired``: nodes whose hold has ended and is still on the
    node. ``orphaned``: nodes held for a pod for which no task clears them. ``unproven``: nodes with a hold annotation that neither a taint
    nor a record proves. Such an annotation is reported and has no other effect.
    """

    def __init__(
        self, api: KubeApi, events: EventRecorder, observer: RescueObserver, options: RescueOptions, nominations: Nominator
    ) -> None:
        self.expired: list[str] = []
        self.orphaned: list[str] = []
        self.unproven: list[str] = []
        self._api, self._events, self._observer, self._options = api, events, observer, options
        self._nominations = nominations
        self._records = HoldStore(api)
        self._released: dict[str, Hold] = {}
        self._released_annotations: dict[str, t.Optional[str]] = {}
        self._retry_at_s: dict[str, float] = {}
        self._held_nodes_cache: t.Optional[tuple[tuple[t.Any, ...], HeldNodes]] = None

    def refresh(self, snapshot: ClusterSnapshot, *, leading: bool) -> None:
        """Read the records if that is due, and report hold annotations that nothing proves. Raise KubeError."""
        self._records.read_if_due(leading=leading)
        unproven = self._find_unproven(snapshot)
        if not set(unproven).issubset(self.unproven):
            self._records.read()  # the annotation may be newer than the records
            unproven = self._find_unproven(snapshot)
        for name in unproven:
            if name not in self.unproven:
                self._observer.on_error(_unproven_message(name))
        self.unproven = unproven

    def place(self, node: Node, hold: Hold, *, dry_run: bool = False) -> None:
        """Record the hold, then place it on the node.

        Raise NodeTakenError, NodeChangesError, HoldNotRecordedError and KubeError. The record of a refused hold is removed. If that fails,
        ``reconcile`` repeats it.
        """
        if dry_run:
            place_hold(self._api, node.name, hold, dry_run=True)
            return
        record = HoldRecord(node.name, node.metadata.uid, hold)
        self._records.put(record)
        self._released.pop(node.name, None)
        try:
            place_hold(self._api, node.name, hold)
        except KubeError as error:
            if not is_transient(error):  # otherwise the hold may be on the node
                self._drop([record])
            raise

    def reconcile(
        self, snapshot: ClusterSnapshot, tasks: Mapping[str, RescueTask], *, now_s: float, now_at_s: float, may_write: bool
    ) -> None:
        """Take over the holds of pods whose rescue no program continues, and release holds that are no longer needed."""
        self.expired, self.orphaned = [], []
        self._drop_obsolete(snapshot, now_at_s, may_write=may_write)
        for node, hold in self.active(snapshot):
            task = tasks.get(hold.uid)
            if self._has_expired(node, hold, task, snapshot, now_s):
                if not (may_write and self._try_to_release(node, hold, now_at_s)):
                    self.expired.append(node.name)
            elif task is not None and task.stage == WATCHED:
                if not may_write:
                    self.orphaned.append(node.name)
                    continue
                ends_at_s = now_at_s + hold.deadline_s - now_s
                task.start(node.name, hold, give_up_at_s=ends_at_s, hold_ends_at_s=ends_at_s)
                task.note_attempt()

    def _try_to_release(self, node: Node, hold: Hold, now_at_s: float) -> bool:
        if now_at_s < self._retry_at_s.get(node.name, 0.0):
            return False
        self._retry_at_s.pop(node.name, None)
        released = self.release(node, hold)
        if not released:
            self._retry_at_s[node.name] = now_at_s + RETRY_S
        return released

    def active(self, snapshot: ClusterSnapshot) -> list[tuple[Node, Hold]]:
        """Return every node with a hold, without the holds that this program has released and that the watch still shows."""
        holds = self._held_nodes(snapshot).holds
        self._released = {name: hold for name, hold in self._released.items() if holds.get(name) == hold}
        return [(node_or_stub(name, snapshot.nodes), hold) for name, hold in holds.items() if self._released.get(name) != hold]

    def release(self, node: Node, hold: Hold, *, waits: bool = True) -> bool:
        """Remove exactly this hold. Return False if that could not be written. ``waits``: the hold's pod may still be nominated."""
        self._nominations.drop(hold.uid)
        try:
            if waits:
                self._withdraw(node, hold)
            was_there = release_hold(self._api, node.name, hold)
            record = self._records.records.get(node.name)
            if record is not None and record.hold == hold:
                self._records.remove([record])
        except KubeError as error:
            self._observer.on_error(f"node {node.name} is not released yet: {error}")
            return False
        self._released[node.name], self._released_annotations[node.name] = hold, hold_annotation(node)
        if was_there:
            self._observer.on_released(node, hold)
            self._events.on_node(node, "RescueHoldReleased", f"no longer held for pod {hold.pod_name}")
        return True

    def _withdraw(self, node: Node, hold: Hold) -> None:
        try:
            withdraw(self._api, ObjectMeta(namespace=hold.namespace, name=hold.pod, uid=hold.uid), node.name)
        except KubeError as error:
            if is_transient(error):
                raise
            if is_permission_error(error) and not hold.nominates:
                return  # the pod was never nominated
            # The node must not wait for an error that lasts. The scheduler clears the nomination after its next try.
            self._observer.on_error(f"pod {hold.pod_name} is still nominated for node {node.name}: {error}")

    def _held_nodes(self, snapshot: ClusterSnapshot) -> HeldNodes:
        """Return the held nodes. The result is cached until one of its inputs changes."""
        key = (snapshot.nodes, snapshot.pods, self._records.records)
        if self._held_nodes_cache is None or any(part is not before for part, before in zip(key, self._held_nodes_cache[0])):
            self._held_nodes_cache = key, held_nodes(snapshot, self._records.records, self._options)
        return self._held_nodes_cache[1]

    def _find_unproven(self, snapshot: ClusterSnapshot) -> list[str]:
        """Return the nodes with an unproven annotation, without annotations that this program removed and the watch still shows."""
        found = {name: hold_annotation(snapshot.nodes[name]) for name in self._held_nodes(snapshot).unproven}
        self._released_annotations = {
            name: text for name, text in self._released_annotations.items() if text is not None and text == found.get(name, text)
        }
        return [name for name, text in found.items() if self._released_annotations.get(name) != text]

    def _drop_obsolete(self, snapshot: ClusterSnapshot, now_at_s: float, *, may_write: bool) -> None:
        """Remove the records of nodes that are gone."""
        obsolete = self._held_nodes(snapshot).obsolete
        if not (obsolete and may_write) or now_at_s < self._retry_at_s.get("", 0.0):
            return
        if not self._drop(obsolete):
            self._retry_at_s[""] = now_at_s + RETRY_S

    def _drop(self, records: list[HoldRecord]) -> bool:
        try:
            self._records.remove(records)
        except KubeError as error:
            names = ", ".join(record.node for record in records)
            self._observer.on_error(f"the records of holds of these nodes could not be removed yet: {names}: {error}")
            return False
        return True

    def _has_expired(self, node: Node, hold: Hold, task: t.Optional[RescueTask], snapshot: ClusterSnapshot, now_s: float) -> bool:
        if task is not None and task.stage == CLEARING and task.node == node.name:
            return False  # the end of the task releases the node
        if hold.has_expired(now_s) or not (hold.nominates or hold.taint in (node.spec.taints or ())):
            return True  # an annotation without its taint has no effect
        if task is not None:
            # Another node is being cleared for the task, or this one was cleared without effect, or the task has ended.
            return task.stage != WATCHED or node.name in task.exclusions.nodes
        pod = next((pod for pod in snapshot.pods if pod.metadata.uid == hold.uid), None)
        return pod is None or bool(pod.spec.node_name) or pod.terminating or pod.terminal


def node_or_stub(name: str, nodes: Mapping[str, Node]) -> Node:
    """Return the node.

    For a node that is gone or undecodable, return one with only its name, because writes read it from the API server.
    """
    return nodes.get(name) or Node(metadata=ObjectMeta(name=name))


def _unproven_message(node_name: str) -> str:
    return (
        f"node {node_name} has an annotation {HOLD_ANNOTATION} that is not proved by a taint or by a record in the ConfigMap "
        f"{NAMESPACE}/{NAME}: it is ignored; remove it with kubectl annotate node {node_name} {HOLD_ANNOTATION}-"
    )


class NodeChangesError(KubeError):
    """The taints of the node change too often to write or remove a hold."""


def place_hold(api: KubeApi, node_name: str, hold: Hold, *, dry_run: bool = False) -> None:
    """Place the hold on the node, in addition to all its taints.

    It replaces an annotation that nothing proves. Raise NodeTakenError, NodeChangesError and KubeError; the node is unchanged then.
    """

    def operations(node: Json) -> JsonPatch:
        if is_hold_on(node, hold):
            return []  # the hold is already there: only the answer was lost
        other = held_for_another(node, hold)
        if other is not None:
            raise NodeTakenError(f"node {node_name} is held for pod {other.pod_name}")
        return hold_patch(node, hold)

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
