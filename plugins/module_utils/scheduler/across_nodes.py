# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What rules have in common whose answer about a node depends on the pods of other nodes as well."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Sequence

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reasons
from .placement import Change


class AcrossNodes(t.Protocol):
    """One plugin's rule for one pod: it counts the pods of the snapshot once, and then only what changes."""

    @property
    def speaks(self) -> bool:
        """Whether it has something to say about the pod as things are; otherwise the scheduler skips the plugin."""

    @property
    def topology_keys(self) -> Collection[str]:
        """The topology keys by which it may close domains."""

    def closes(self, topology_key: str, domain: str | None) -> bool:
        """Whether it surely rejects all nodes of the domain of one of its topology keys; None for the nodes without the key."""

    def follow(self, changes: Sequence[Change]) -> bool:
        """Count what is new in ``Placement.changes``; whether an answer may be another one now."""

    def beside(self, nominated: Sequence[Pod], node_name: str) -> AcrossNodes:
        """The rule as it answers about the node with pods that are nominated for it: the plugin's AddPod."""

    def rejection(self, node: Node) -> Reasons:
        """Why the node is surely out."""

    def rejection_without(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        """As ``rejection``, once these pods, which are counted on the node, have left it."""

    def shuts(self, node: Node, leaving: Sequence[Pod]) -> bool:
        """Whether the node is surely out, whichever of these pods, which are counted on it, leave it: all of them, some or none."""

    @property
    def in_doubt(self) -> bool:
        """Whether ``doubt`` may have something to say about some node."""

    def doubt(self, node: Node, /) -> Reasons:
        """What may be against a node that is not surely out."""
