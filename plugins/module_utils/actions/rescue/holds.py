# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The holds that are on the nodes: which are still needed, which are taken over, which are given back."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.api import KubeApi
from ...kube.errors import KubeError, may_pass
from ...memory.hold import Hold, read_hold
from ...model.objects import Node
from ...model.snapshot import ClusterSnapshot
from .case import CLEARING, WATCHED, Case
from .hold_write import release_hold
from .nomination import withdraw
from .tell import Teller
from .witness import Witness

RETRY_S = 1.0


class Holds:
    """Gives nodes back. What could not be written is tried again by ``tidy``, because the mark is still on the node then.

    ``left``: the nodes whose hold is over and still there. ``untended``: those that are held for a pod for which nobody here works on them.
    """

    def __init__(self, api: KubeApi, teller: Teller, witness: Witness) -> None:
        self.left: list[str] = []
        self.untended: list[str] = []
        self._api, self._teller, self._witness = api, teller, witness
        self._done: dict[str, Hold] = {}
        self._retry_at_s: dict[str, float] = {}

    def tidy(self, snapshot: ClusterSnapshot, cases: Mapping[str, Case], *, now_s: float, now_at_s: float, may_write: bool) -> None:
        """Take over the holds of cases that nobody works on any more, and give back those that have outlived their purpose."""
        self.left, self.untended = [], []
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
        found = [(node, hold) for node in snapshot.nodes.values() if node.metadata.annotations and (hold := read_hold(node)) is not None]
        there = {node.name: hold for node, hold in found}
        self._done = {name: hold for name, hold in self._done.items() if there.get(name) == hold}
        return [(node, hold) for node, hold in found if self._done.get(node.name) != hold]

    def give_back(self, node: Node, hold: Hold, *, waits: bool = True) -> bool:
        """Take exactly this hold off; false where that could not be written. ``waits``: its pod may still be nominated."""
        try:
            if hold.nominates and waits:
                self._withdraw(node, hold)
            was_there = release_hold(self._api, node.name, hold)
        except KubeError as error:
            self._witness.troubled(f"node {node.name} could not be given back yet: {error}")
            return False
        self._done[node.name] = hold
        if was_there:
            pod = f"{hold.namespace}/{hold.pod}"
            self._witness.released(node.name, pod)
            self._teller.of_node(node, "RescueHoldReleased", f"no longer held for pod {pod}")
        return True

    def _withdraw(self, node: Node, hold: Hold) -> None:
        try:
            withdraw(self._api, hold, node.name)
        except KubeError as error:
            if may_pass(error):
                raise
            # The node must not wait for what does not get better; the scheduler takes the nomination away after its next try.
            self._witness.troubled(f"pod {hold.namespace}/{hold.pod} is still nominated for node {node.name}: {error}")

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
