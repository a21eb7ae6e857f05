# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Why replicas are in no domain: the label of their node is missing, the node cannot be decoded, or the list of nodes does not have it."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..scheduler.filters.spread_domains import domain_of

NO_DOMAIN = "no_domain"
MOST_NAMED = 5
"""Nodes that a reason names."""


def without_domain(snapshot: ClusterSnapshot, topology_key: str, homes: Iterable[str]) -> Reason:
    """The reason for replicas of which at least one is in no domain of the key; ``homes``: the node of each replica."""
    unlabelled: list[str] = []
    undecodable: list[str] = []
    unlisted: list[str] = []
    not_decoded = {one.metadata.name for one in snapshot.undecodable_of("Node")}
    for home in homes:
        node = snapshot.nodes.get(home)
        if node is None:
            (undecodable if home in not_decoded else unlisted).append(home)
        elif domain_of(node, topology_key) is None:
            unlabelled.append(home)
    texts = [f"{_replicas(unlabelled)} on nodes without the label {topology_key}"] if unlabelled else []
    texts += [f"{_replicas(undecodable)} on {_nodes(undecodable)}, which cannot be decoded"] if undecodable else []
    texts += [f"{_replicas(unlisted)} on {_nodes(unlisted)}, which the list of nodes does not have"] if unlisted else []
    return Reason(NO_DOMAIN, "; ".join(texts))


def _replicas(homes: list[str]) -> str:
    return f"{pluralize(len(homes), 'replica')} {'is' if len(homes) == 1 else 'are'}"


def _nodes(homes: list[str]) -> str:
    names = sorted(set(homes))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{'node' if len(names) == 1 else 'nodes'} {', '.join(names[:MOST_NAMED])}{more}"
