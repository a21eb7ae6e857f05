# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes and victims that a rescue does not try again for some time, or never. Pure."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...model.reason import Reason


@dataclass(frozen=True)
class Exclusions:
    """The ends of the exclusions by the monotonic clock: of nodes by name, and of victims by uid.

    ``given_up``: the node that was excluded last, with the reason.
    """

    nodes: Mapping[str, float] = field(default_factory=dict)
    victims: Mapping[str, float] = field(default_factory=dict)
    given_up: t.Optional[tuple[str, Reason]] = None

    def with_node(self, name: str, until_s: float, why: Reason) -> Exclusions:
        """Return the exclusions with this node, which could not be cleared or was cleared without effect."""
        return replace(self, nodes={**self.nodes, name: until_s}, given_up=(name, why))

    def with_failed_nodes(self, names: Iterable[str]) -> Exclusions:
        """Return the exclusions with these nodes, which were cleared without effect. They are never tried again."""
        return replace(self, nodes={**self.nodes, **dict.fromkeys(names, math.inf)})

    def with_victim(self, uid: str, until_s: float) -> Exclusions:
        """Return the exclusions with this pod, whose eviction was refused."""
        return replace(self, victims={**self.victims, uid: until_s})

    def at(self, now_at_s: float) -> Exclusions:
        """Return the exclusions that have not ended yet."""
        nodes = {name: until_s for name, until_s in self.nodes.items() if until_s > now_at_s}
        victims = {uid: until_s for uid, until_s in self.victims.items() if until_s > now_at_s}
        return replace(self, nodes=nodes, victims=victims)

    @property
    def may_change_soon(self) -> bool:
        """True if an exclusion is temporary, so that a refused eviction or node may be possible later."""
        return any(until_s < math.inf for until_s in (*self.victims.values(), *self.nodes.values()))

    @property
    def given_up_text(self) -> str:
        """The text about the node that was excluded last, to be appended to a reason. Empty if it is not excluded any more."""
        if self.given_up is None or self.given_up[0] not in self.nodes:
            return ""
        return f"; node {self.given_up[0]} was given up: {self.given_up[1].text}"
