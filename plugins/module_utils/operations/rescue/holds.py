# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The holds of the cluster: which are proved, which are still needed, which are taken over, which are given back."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, is_permission_error, is_transient
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.snapshot import ClusterSnapshot
from ...rescue.held_nodes import HeldNodes, held_nodes
from ...rescue.options import RescueOptions
from ...state.hold import HOLD_ANNOTATION, Hold, HoldRecord, hold_annotation
from .case import CLEARING, WATCHED, Case
from .hold_records import HoldRecords
from .hold_write import put_hold, release_hold
from .nomination import withdraw
from .nomination_renewal import Nominations
from .record_store import NAME, NAMESPACE
from .tell import Teller
from .witness import Witness

RETRY_S = 1.0


class Holds:
    """Puts holds on nodes and gives nodes back. What could not be written is tried again by ``tidy``, because its record is still there.

    ``left``: the nodes whose hold is over and still there. ``untended``: those that are held for a pod for which nobody here works on them.
    ``unproved``: the nodes with a mark that nothing proves; it is reported and has no other effect.
    """

    def __init__(self, api: KubeApi, teller: Teller, witness: Witness, options: RescueOptions, nominations: Nominations) -> None:
        self.left: list[str] = []
        self.untended: list[str] = []
        self.unproved: list[str] = []
        self._api, self._teller, self._witness, self._options = api, teller, witness, options
        self._nominations = nominations
        self._records = HoldRecords(api)
        self._done: dict[str, Hold] = {}
        self._done_marks: dict[str, t.Optional[str]] = {}
        self._retry_at_s: dict[str, float] = {}
        self._looked: t.Optional[tuple[tuple[t.Any, ...], HeldNodes]] = None

    def refresh(self, snapshot: ClusterSnapshot, *, leading: bool) -> None:
        """Read the records where that is due, and report marks that nothing proves. Raises KubeError."""
        self._records.refresh(leading=leading)
        unproved = self._unproved(snapshot)
        if not set(unproved).issubset(self.unproved):
            self._records.read()  # it may be newer than what was read before
            unproved = self._unproved(snapshot)
        for name in unproved:
            if name not in self.unproved:
                self._witness.troubled(_unproved(name))
        self.unproved = unproved

    def put(self, node: Node, hold: Hold, *, dry_run: bool = False) -> None:
        """Record the hold, and then put it on the node. Raises NodeTakenError, NodeChangesError, NotRecordedError and KubeError.

        A record whose hold was refused is removed; where that fails ``tidy`` does it.
        """
        if dry_run:
            put_hold(self._api, node.name, hold, dry_run=True)
            return
        record = HoldRecord(node.name, node.metadata.uid, hold)
        self._records.put(record)
        self._done.pop(node.name, None)
        try:
            put_hold(self._api, node.name, hold)
        except KubeError as error:
            if not is_transient(error):  # otherwise the hold may be on the node
                self._drop([record])
            raise

    def tidy(self, snapshot: ClusterSnapshot, cases: Mapping[str, Case], *, now_s: float, now_at_s: float, may_write: bool) -> None:
        """Take over the holds of cases that nobody works on any more, and give back those that have outlived their purpose."""
        self.left, self.untended = [], []
        self._drop_obsolete(snapshot, now_at_s, may_write=may_write)
        for node, hold in self.on(snapshot):
            case = cases.get(hold.uid)
            if self._is_over(node, hold, case, snapshot, now_s):
                if not (may_write and self._try_to_give_back(node, hold, now_at_s)):
                    self.left.append(node.name)
            elif case is not None and case.stage == WATCHED:
                if not may_write:
                    self.untended.append(node.name)
                    continue
                case.begin(node.name, hold, give_up_at_s=now_at_s + hold.deadline_s - now_s)
                case.changed = True  # its attempt is under way, and has to be settled

    def _try_to_give_back(self, node: Node, hold: Hold, now_at_s: float) -> bool:
        if now_at_s < self._retry_at_s.get(node.name, 0.0):
            return False
        self._retry_at_s.pop(node.name, None)
        given_back = self.give_back(node, hold)
        if not given_back:
            self._retry_at_s[node.name] = now_at_s + RETRY_S
        return given_back

    def on(self, snapshot: ClusterSnapshot) -> list[tuple[Node, Hold]]:
        """Every node with a hold that was not given back already: the watch may not have caught up."""
        holds = self._look(snapshot).holds
        self._done = {name: hold for name, hold in self._done.items() if holds.get(name) == hold}
        return [(node_of(name, snapshot.nodes), hold) for name, hold in holds.items() if self._done.get(name) != hold]

    def give_back(self, node: Node, hold: Hold, *, waits: bool = True) -> bool:
        """Take exactly this hold off; false where that could not be written. ``waits``: its pod may still be nominated."""
        self._nominations.drop(hold.uid)
        try:
            if waits:
                self._withdraw(node, hold)
            was_there = release_hold(self._api, node.name, hold)
            record = self._records.known.get(node.name)
            if record is not None and record.hold == hold:
                self._records.drop([record])
        except KubeError as error:
            self._witness.troubled(f"node {node.name} could not be given back yet: {error}")
            return False
        self._done[node.name], self._done_marks[node.name] = hold, hold_annotation(node)
        if was_there:
            pod = f"{hold.namespace}/{hold.pod}"
            self._witness.released(node.name, pod)
            self._teller.of_node(node, "RescueHoldReleased", f"no longer held for pod {pod}")
        return True

    def _withdraw(self, node: Node, hold: Hold) -> None:
        try:
            withdraw(self._api, ObjectMeta(namespace=hold.namespace, name=hold.pod, uid=hold.uid), node.name)
        except KubeError as error:
            if is_transient(error):
                raise
            if is_permission_error(error) and not hold.nominates:
                return  # it was never nominated
            # The node must not wait for what does not get better; the scheduler takes the nomination away after its next try.
            self._witness.troubled(f"pod {hold.namespace}/{hold.pod} is still nominated for node {node.name}: {error}")

    def _look(self, snapshot: ClusterSnapshot) -> HeldNodes:
        """The same result until something in it can have changed."""
        key = (snapshot.nodes, snapshot.pods, self._records.known)
        if self._looked is None or any(part is not before for part, before in zip(key, self._looked[0])):
            self._looked = key, held_nodes(snapshot, self._records.known, self._options)
        return self._looked[1]

    def _unproved(self, snapshot: ClusterSnapshot) -> list[str]:
        """Without the marks that were removed by this program, as far as the watch shows them still."""
        found = {name: hold_annotation(snapshot.nodes[name]) for name in self._look(snapshot).unproved}
        self._done_marks = {name: mark for name, mark in self._done_marks.items() if mark is not None and mark == found.get(name, mark)}
        return [name for name, mark in found.items() if self._done_marks.get(name) != mark]

    def _drop_obsolete(self, snapshot: ClusterSnapshot, now_at_s: float, *, may_write: bool) -> None:
        """Remove the records of nodes that are gone."""
        obsolete = self._look(snapshot).obsolete
        if not (obsolete and may_write) or now_at_s < self._retry_at_s.get("", 0.0):
            return
        if not self._drop(obsolete):
            self._retry_at_s[""] = now_at_s + RETRY_S

    def _drop(self, records: list[HoldRecord]) -> bool:
        try:
            self._records.drop(records)
        except KubeError as error:
            names = ", ".join(record.node for record in records)
            self._witness.troubled(f"the records of holds of these nodes could not be removed yet: {names}: {error}")
            return False
        return True

    def _is_over(self, node: Node, hold: Hold, case: t.Optional[Case], snapshot: ClusterSnapshot, now_s: float) -> bool:
        if case is not None and case.stage == CLEARING and case.node == node.name:
            return False  # its own end gives the node back
        if hold.has_expired(now_s) or not (hold.nominates or hold.taint in (node.spec.taints or ())):
            return True  # a mark without its taint keeps nobody off
        if case is not None:
            # Another node is being cleared for it, or this one was tried in vain, or nothing more is done for it.
            return case.stage != WATCHED or node.name in case.excluded
        pod = next((pod for pod in snapshot.pods if pod.metadata.uid == hold.uid), None)
        return pod is None or bool(pod.spec.node_name) or pod.terminating or pod.terminal


def node_of(name: str, nodes: Mapping[str, Node]) -> Node:
    """The node; for one that is gone, or cannot be decoded, only its name: the API server tells what it is."""
    return nodes.get(name) or Node(metadata=ObjectMeta(name=name))


def _unproved(node_name: str) -> str:
    return (
        f"node {node_name} has an annotation {HOLD_ANNOTATION} that is not proved by a taint or by a record in the ConfigMap "
        f"{NAMESPACE}/{NAME}: it is ignored; remove it with kubectl annotate node {node_name} {HOLD_ANNOTATION}-"
    )
