# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes of a view, by number."""

from __future__ import annotations

from collections.abc import Sequence

from ..interface import NodeView
from .fragments import Fragments


class Nodes:
    """The nodes of a view, with the fragments of each. ``numbers``: the place of each node, by its name. All profiles share it."""

    def __init__(self, views: Sequence[NodeView], fragments: Fragments) -> None:
        self.views = list(views)
        self.names = [node.name for node in self.views]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.fragments = list(map(fragments.of, self.names))
