# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of the filters whose result for a node also depends on the pods of other nodes."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reasons
from ..domain_groups import DomainGroups


class TopologyFilter(t.Protocol):
    """The filter of one plugin for one pod. It counts the pods of the snapshot once, and then only the changes."""

    @property
    def is_active(self) -> bool:
        """True if the filter applies to the pod now. If it does not apply, the scheduler skips the plugin."""

    @property
    def topology_keys(self) -> Collection[str]:
        """The topology keys by which the filter may reject domains."""

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        """Return whether the filter surely rejects all nodes of the domain; None for ``domain`` means the nodes without the key.

        ``topology_key``: one of the filter's topology keys.
        """

    def closed_domains(self) -> Mapping[str, Collection[str | None]] | None:
        """Return the rejected domains by topology key; None in place of a domain means the nodes without the key.

        Return None if the filter may also reject other nodes.
        """

    def surely_allows(self, pods: int, nodes: tuple[str, ...], changed: int, groups: DomainGroups) -> bool:
        """Return whether the filter surely allows a node with capacity for each of these pods, one after the other.

        ``pods``: the number of pods, which are like the filter's own. ``nodes``: the nodes with capacity for one. ``changed``: the capacity
        of so many of them may be used already. Pods of the snapshot may be removed meanwhile.
        """

    def apply_changes(self, changes: Sequence[PodChange]) -> bool:
        """Count the new entries of ``ClusterState.changes``. Return whether a result may have changed."""

    def copy(self) -> TopologyFilter:
        """Return a filter with the same counts. Later changes of one do not affect the other."""

    def with_nominated_pods(self, nominated: Sequence[Pod], node_name: str) -> TopologyFilter:
        """Return the filter for the node together with the pods that are nominated for it (AddPod of the plugin)."""

    def rejection(self, node: Node) -> Reasons:
        """Return the reasons that surely reject the node."""

    def rejection_without_pods(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        """Return the same as ``rejection``, if these pods, which are counted on the node, are removed."""

    def always_rejects(self, node: Node, leaving: Sequence[Pod]) -> bool:
        """Return whether the node is surely rejected, whichever of these pods are removed: all, some or none.

        The pods are counted on the node.
        """

    @property
    def may_be_unknown(self) -> bool:
        """True if ``unknown`` may return a reason for some node."""

    def unknown(self, node: Node, /) -> Reasons:
        """Return the reasons that may reject a node that is not surely rejected."""


class PodChange(t.NamedTuple):
    """A pod that was added to a node (``amount`` 1) or removed from it (-1), or whose nomination for it was removed (0)."""

    pod: Pod
    node_name: str
    amount: int
