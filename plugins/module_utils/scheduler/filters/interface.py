# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What rules have in common whose answer about a node depends on the pods of other nodes as well."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reasons


class TopologyFilter(t.Protocol):
    """One plugin's rule for one pod: it counts the pods of the snapshot once, and then only what changes."""

    @property
    def is_active(self) -> bool:
        """Whether it has something to say about the pod as things are; otherwise the scheduler skips the plugin."""

    @property
    def topology_keys(self) -> Collection[str]:
        """The topology keys by which it may close domains."""

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        """Whether it surely rejects all nodes of the domain of one of its topology keys; None for the nodes without the key."""

    def apply_changes(self, changes: Sequence[PodChange]) -> bool:
        """Count what is new in ``ClusterState.changes``; whether an answer may be another one now."""

    def with_nominated_pods(self, nominated: Sequence[Pod], node_name: str) -> TopologyFilter:
        """The rule as it answers about the node with pods that are nominated for it: the plugin's AddPod."""

    def rejection(self, node: Node) -> Reasons:
        """Why the node is surely out."""

    def rejection_without_pods(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        """As ``rejection``, once these pods, which are counted on the node, have left it."""

    def always_rejects(self, node: Node, leaving: Sequence[Pod]) -> bool:
        """Whether the node is surely out, whichever of these pods, which are counted on it, leave it: all of them, some or none."""

    @property
    def may_be_unknown(self) -> bool:
        """Whether ``unknown`` may have something to say about some node."""

    def unknown(self, node: Node, /) -> Reasons:
        """What may be against a node that is not surely out."""


class PodChange(t.NamedTuple):
    """A pod that has come to a node (``amount`` 1), left it (-1), or given up its nomination for it (0)."""

    pod: Pod
    node_name: str
    amount: int
