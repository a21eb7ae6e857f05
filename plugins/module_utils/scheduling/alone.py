# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the rules that look at one node alone say of it, kept once for all pods that these rules cannot tell apart."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Hashable

from ..model.objects import Pod
from .eligibility import static_rules_of
from .host_ports import host_ports
from .node_info import NodeInfo
from .profile import Profile
from .reasons import Reasons
from .resources import pod_requests


class Alone(t.NamedTuple):
    """Why a node is out, for as long as ``Placement.changed`` has the same info of it, or none: an info itself never changes."""

    changed: t.Optional[NodeInfo]
    reasons: Reasons


def alike(pod: Pod, profile: Profile, devices: Collection[str]) -> Hashable:
    """Equal for pods that differ in nothing that the static rules, the room on a node and its host ports depend on.

    ``devices``: as of ``rules.node_resources``. Raises QuantityError.
    """
    requests = pod_requests(pod, from_status=False)
    return static_rules_of(pod), tuple(requests.items()), host_ports(pod), frozenset(devices), profile
