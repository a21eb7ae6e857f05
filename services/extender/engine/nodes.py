# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes of a view, by number."""

from __future__ import annotations

from collections.abc import Iterable

from ..interface import NodeView
from .fragments import fragments_of


class Nodes:
    """The nodes of a view, with the fragments of each. All profiles share it. ``before``: the nodes whose fragments are used again.

    ``numbers``: the place of each node, by its name. ``replaced``: the numbers of the nodes that were replaced since the refresh, in this
    order. Scores and tables keep the number of replacements that they know. A request judges the nodes that were replaced since then, for
    its own demand. So a binding needs no calculation for the demands of other pods.
    """

    def __init__(self, views: Iterable[NodeView], before: Nodes | None = None) -> None:
        self.views = list(views)
        self.names = [node.name for node in self.views]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        known = dict(zip(before.names, before.fragments, strict=True)) if before is not None else {}
        self.fragments: list[tuple[bytes, ...]] = [known.get(name) or fragments_of(name) for name in self.names]
        self.replaced: list[int] = []

    def replaced_since(self, position: int) -> list[int]:
        """Return the nodes that were replaced since ``replaced`` had this length, each once."""
        return list(dict.fromkeys(self.replaced[position:]))
