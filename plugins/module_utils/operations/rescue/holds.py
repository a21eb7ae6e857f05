# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The holds of the cluster. Each of them is proven or not, and is kept, taken over or released."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Collection, Mapping

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, NotFoundError, is_permission_error, is_transient
from ...kube.client.resources import NODES
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.snapshot import ClusterSnapshot
from ...rescue.held_nodes import HeldNodes, held_nodes
from ...state.hold import (
    HOLD_ANNOTATION,
    Hold,
    HoldRecord,
    Json,
    JsonPatch,
    has_space_for,
    held_for_another,
    hold_annotation,
    hold_patch,
    hold_record_patch,
    is_hold_on,
    read_hold_records,
    release_patch,
)
from ..common.config_map_store import NAME, NAMESPACE, Changes, ConfigMapStore
from ..common.guarded_patch import MAX_TRIES, write_guarded
from .environment import ReconcileView, RescueEnvironment
from .nomination_alone import Nominator
from .requests import withdraw
from .task import WATCHED, RescueTask

READ_EVERY_S = 5.0


class HoldNotRecordedError(KubeError):
    """The record of a hold cannot be written, so no node can be held."""


class TooManyHoldsError(KubeError):
    """There is no space for another record until a hold is released."""


class HoldStore:
    """Stores the hold records. ``records`` has them by node name, as last read or written."""

    def __init__(self, api: KubeApi) -> None:
        self.records: Mapping[str, HoldRecord] = {}
        self._store = ConfigMapStore(api)
        self._read_at_s: t.Optional[float] = None
        self._led = False

    def read_if_due(self, *, leading: bool) -> None:
        """Read the records if that is due. A new leader always reads them. Raise KubeError."""
        now_at_s = time.monotonic()
        if self._read_at_s is None or (leading and not self._led) or now_at_s - self._read_at_s >= READ_EVERY_S:
            self.read()
        self._led = leading

    def read(self) -> None:
        """Read the records now. Raise KubeError."""
        self.records = read_hold_records(self._store.read())
        self._read_at_s = time.monotonic()

    def put(self, record: HoldRecord) -> None:
        """Write the record of a node.

        Raise NodeTakenError if the node has a record of another hold, TooManyHoldsError, HoldNotRecordedError and KubeError.
        """

        def change(data: Mapping[str, str]) -> Changes:
            records = read_hold_records(data)
            found = records.get(record.node)
            if found is not None and found.node_uid == record.node_uid and found.hold.uid != record.hold.uid:
                raise NodeTakenError(f"node {record.node} is held for pod {found.hold.namespace}/{found.hold.pod}")
            if found is None and not has_space_for(data, record):
                text = f"{_MAP} has {len(records)} records of holds and no space for more: a rescue waits until one is released"
                raise TooManyHoldsError(text)
            return hold_record_patch(data, put=record)

        try:
            self._update(change)
        except (NodeTakenError, TooManyHoldsError, ConflictError):
            raise
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            text = f"the hold of node {record.node} cannot be recorded in {_MAP}, so that nothing is evicted: {error}"
            raise HoldNotRecordedError(f"{text}. Delete that ConfigMap: it is created again.") from error

    def remove(self, records: Collection[HoldRecord]) -> None:
        """Remove exactly these records. Raise KubeError."""
        if records:
            self._update(lambda data: hold_record_patch(data, drop=records))

    def _update(self, change: t.Callable[[Mapping[str, str]], Changes]) -> None:
        self.records = read_hold_records(self._store.update(change))


_MAP = f"ConfigMap {NAMESPACE}/{NAME}"


class NodeTakenError(KubeError):
    """The node is held for another pod, or is gone."""


RETRY_S = 1.0
"""Seconds until ``reconcile`` repeats writes, after one of them has failed."""
SHOWN_FOR_S = 60.0
"""Seconds for which the watch may still show a hold that was released. After that, the same hold is a new one."""


class _Released(t.NamedTuple):
    """A hold that this program has released, with the annotation of its node."""

    hold: Hold
    annotation: t.Optional[str]
    at_s: float


class Holds:
    """Places holds on nodes and releases nodes.

    ``reconcile`` repeats failed writes, because the hold record still exists. ``expired``: nodes whose hold has ended and is still on the
    node. ``orphaned``: held nodes that no task clears for their pod. ``unproven``: nodes with a hold annotation that neither a taint nor a
    record proves. Such an annotation is reported and has no other effect.
    """

    def __init__(self, environment: RescueEnvironment, nominations: Nominator) -> None:
        self.expired: list[str] = []
        self.orphaned: list[str] = []
        self.unproven: list[str] = []
        self._api, self._events = environment.api, environment.events
        self._observer, self._options = environment.observer, environment.options
        self._nominations = nominations
        self._records = HoldStore(environment.api)
        self._released: dict[str, _Released] = {}
        self._retry_at_s = 0.0
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

    def reconcile(self, view: ReconcileView, tasks: Mapping[str, RescueTask]) -> list[tuple[Node, Hold]]:
        """Release holds that are no longer needed. Return the holds of pods whose rescue no program continues, to be taken over."""
        self.expired, self.orphaned = [], []
        left = []
        tries = view.may_write and view.now_at_s >= self._retry_at_s
        obsolete = self._held_nodes(view.snapshot).obsolete
        if tries and obsolete:
            self._drop(obsolete)
        for node, hold in self.active(view.snapshot):
            task = tasks.get(hold.uid)
            if self._has_expired(node, hold, task, view):
                if not (tries and self.release(node, hold)):
                    self.expired.append(node.name)
            elif task is not None and task.stage == WATCHED:
                if view.may_write:
                    left.append((node, hold))
                else:
                    self.orphaned.append(node.name)
        return left

    def active(self, snapshot: ClusterSnapshot) -> list[tuple[Node, Hold]]:
        """Return every node with a hold, without the holds that this program has released and that the watch still shows."""
        holds, ended = self._held_nodes(snapshot).holds, self._released_lately()
        return [(node_or_stub(name, snapshot.nodes), hold) for name, hold in holds.items() if name not in ended or ended[name].hold != hold]

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
            self._fail(f"node {node.name} is not released yet: {error}")
            return False
        self._released[node.name] = _Released(hold, hold_annotation(node), time.monotonic())
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
        names, ended = self._held_nodes(snapshot).unproven, self._released_lately()
        return [name for name in names if name not in ended or ended[name].annotation != hold_annotation(snapshot.nodes[name])]

    def _released_lately(self) -> dict[str, _Released]:
        now_at_s = time.monotonic()
        self._released = {name: one for name, one in self._released.items() if now_at_s < one.at_s + SHOWN_FOR_S}
        return self._released

    def _drop(self, records: list[HoldRecord]) -> None:
        try:
            self._records.remove(records)
        except KubeError as error:
            names = ", ".join(record.node for record in records)
            self._fail(f"the records of holds of these nodes could not be removed yet: {names}: {error}")

    def _fail(self, what: str) -> None:
        self._observer.on_error(what)
        self._retry_at_s = time.monotonic() + RETRY_S

    def _has_expired(self, node: Node, hold: Hold, task: t.Optional[RescueTask], view: ReconcileView) -> bool:
        if task is not None and task.is_clearing and task.clearing.node == node.name:
            return False  # the end of the task releases the node
        if hold.has_expired(view.now_s) or not (hold.nominates or hold.taint in (node.spec.taints or ())):
            return True  # an annotation without its taint has no effect
        if task is not None:
            # Another node is being cleared for the task, or this one was cleared without effect, or the task has ended.
            return task.stage != WATCHED or node.name in task.excluded_nodes
        pod = next((pod for pod in view.snapshot.pods if pod.metadata.uid == hold.uid), None)
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
