# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the rules that look at one node alone say of it, kept once for all pods that these rules cannot tell apart."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Hashable, Mapping

from ..model.api.pod import Pod
from ..model.bounded_cache import BoundedCache
from ..model.reason import Reasons
from .eligibility import static_rules_of
from .host_ports import host_ports
from .node_info import NodeInfo
from .profile import Profile
from .resources import pod_requests


class Alone(t.NamedTuple):
    """Why a node is out, for as long as ``Placement.changed`` has the same info of it, or none: an info itself never changes."""

    changed: t.Optional[NodeInfo]
    reasons: Reasons


class AsRead(t.NamedTuple):
    """The answers about nodes as the snapshot has them: the names of those that are ``open``, and why each other one is out."""

    names: tuple[str, ...]
    members: frozenset[str]
    open: tuple[str, ...]
    rejected: Mapping[str, Reasons]


MOST_LISTS = 4
"""Lists of nodes of which the answers are kept for pods that are alike; mostly there is one, of the nodes that are eligible."""


class AlikePods:
    """What is known about nodes for all pods with the same ``alike``. ``nodes``: by name, filled by the judges of the pods."""

    def __init__(self) -> None:
        self.nodes: dict[str, Alone] = {}
        self._as_read: BoundedCache[int, AsRead] = BoundedCache(MOST_LISTS)

    def as_read(self, names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> AsRead:
        """The answers about these nodes, which the snapshot has and which are in its order; ``reasons_of`` is asked once about each."""
        return self._as_read.get(id(names), lambda: _answers(names, reasons_of))


def _answers(names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> AsRead:
    found = {name: reasons_of(name) for name in names}
    rejected = {name: reasons for name, reasons in found.items() if reasons}
    return AsRead(names, frozenset(names), tuple(name for name in names if name not in rejected), rejected)


def alike(pod: Pod, profile: Profile, devices: Collection[str]) -> Hashable:
    """Equal for pods that differ in nothing that the static rules, the room on a node and its host ports depend on.

    ``devices``: as of ``rules.node_resources``. Raises QuantityError.
    """
    requests = pod_requests(pod, from_status=False)
    return static_rules_of(pod), tuple(requests.items()), host_ports(pod), frozenset(devices), profile
