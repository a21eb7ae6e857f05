# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Topology domains: the value of a topology key on a node."""

from __future__ import annotations

from ..model.api.node import Node


def domain_of(node: Node, topology_key: str) -> str | None:
    """The node's domain; None where it lacks the key, which puts it in no domain at all.

    There is no fallback, not even from ``kubernetes.io/hostname`` to the node's name: the scheduler has none either
    (kubernetes ``plugins/podtopologyspread/common.go``).
    """
    return node.labels.get(topology_key)
