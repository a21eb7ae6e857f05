# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a cluster as the watch of the extender returns them."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import Identity, NodeIdentity, NodeRecord


def nodes_of(*identities: NodeIdentity) -> dict[str, NodeRecord]:
    """Return nodes with these names and addresses."""
    return {one.name: NodeRecord(Identity(one.name), {}, {}, {}, one) for one in identities}
