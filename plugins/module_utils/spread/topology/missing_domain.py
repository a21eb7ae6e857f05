# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reasons for replicas in no domain: their node has no label, cannot be decoded, or is not in the list of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from ...model.messages import listed, pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...scheduler.filters.spread_domains import domain_of

NO_DOMAIN_CODE = "no_domain"
MAX_NAMED = 5
"""Limit of nodes that a reason names."""


def missing_domain_reason(snapshot: ClusterSnapshot, topology_key: str, node_names: Iterable[str]) -> Reason:
    """Return the reason if at least one replica is in no domain of the key. ``node_names`` has the node of each replica."""
    unlabelled: list[str] = []
    undecodable: list[str] = []
    unlisted: list[str] = []
    not_decoded = {one.metadata.name for one in snapshot.undecodable_of("Node")}
    for node_name in node_names:
        node = snapshot.nodes.get(node_name)
        if node is None:
            (undecodable if node_name in not_decoded else unlisted).append(node_name)
        elif domain_of(node, topology_key) is None:
            unlabelled.append(node_name)
    texts = [f"{_replicas(unlabelled)} on nodes without the label {topology_key}"] if unlabelled else []
    texts += [f"{_replicas(undecodable)} on {_nodes(undecodable)}, which cannot be decoded"] if undecodable else []
    texts += [f"{_replicas(unlisted)} on {_nodes(unlisted)}, which the list of nodes does not have"] if unlisted else []
    return Reason(NO_DOMAIN_CODE, "; ".join(texts))


def _replicas(node_names: list[str]) -> str:
    return f"{pluralize(len(node_names), 'replica')} {'is' if len(node_names) == 1 else 'are'}"


def _nodes(node_names: list[str]) -> str:
    names = sorted(set(node_names))
    return f"{'node' if len(names) == 1 else 'nodes'} {listed(names, MAX_NAMED)}"
