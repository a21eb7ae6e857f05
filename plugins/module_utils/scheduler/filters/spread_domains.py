# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes over which a spread constraint counts pods (kubernetes ``plugins/podtopologyspread/common.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.codec import encode_json
from ...model.snapshot import ClusterSnapshot
from . import node_affinity, taint_toleration


def domain_of(node: Node, topology_key: str) -> str | None:
    """Return the node's domain. Return None if the node does not have the key; it is then in no domain.

    There is no fallback, not even from ``kubernetes.io/hostname`` to the node's name. The scheduler has none either (kubernetes
    ``plugins/podtopologyspread/common.go``).
    """
    return node.labels.get(topology_key)


# Each entry needs about 100 bytes for each node. The limit bounds the memory if every pod has different rules.
MAX_CACHED = 64


class NodeDomains(t.NamedTuple):
    """``of_node``: node name to domain, for the nodes that count. ``names``: their domains."""

    of_node: dict[str, str]
    names: frozenset[str]

    @property
    def total(self) -> int:
        """The number of domains."""
        return len(self.names)


class SpreadDomains:
    """Finds the domains of constraints, once for all pods with the same rules."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._nodes = snapshot.nodes
        self._known: dict[tuple[t.Any, ...], NodeDomains] = {}

    def domains(self, topology_key: str, needed_keys: frozenset[str], pod: Pod, *, honor_affinity: bool, honor_taints: bool) -> NodeDomains:
        """Return the domains of ``topology_key`` among the nodes that have all ``needed_keys``.

        If ``topology_key`` is not one of them, the nodes without it are in the domain with the empty name.
        With ``honor_affinity``, nodes that the pod's node selector and node affinity exclude do not count. With ``honor_taints``, nodes
        with a taint that the pod does not tolerate do not count.
        """
        required = node_affinity.required_node_affinity(pod)
        by_affinity = honor_affinity and bool(pod.spec.node_selector or required is not None)
        key = (
            topology_key,
            needed_keys,
            encode_json((pod.spec.node_selector, required)) if by_affinity else b"",
            encode_json(pod.spec.tolerations) if honor_taints else b"",
        )
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            rules = [
                node_affinity.pre_filter(pod) if by_affinity else None,
                taint_toleration.pre_filter(pod) if honor_taints else None,
            ]
            of_node = {
                name: node.labels.get(topology_key, "")
                for name, node in self._nodes.items()
                if needed_keys.issubset(node.labels) and not any(rule(node) for rule in rules if rule is not None)
            }
            known = self._known[key] = NodeDomains(of_node, frozenset(of_node.values()))
        return known
