# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The capacity that a pod lacks on a node, and the part of it that each pod there would free: resources, pod slots and host ports only."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.pod import Pod
from ...model.budgets.ledger import BudgetKey
from ...model.caches import IdentityDict
from ...model.scheduler_profile import DEFAULT_PROFILE, Profiles
from ...scheduler.cluster_state import ClusterState
from ...scheduler.filters import node_resources_fit
from ...scheduler.filters.node_ports import clashes
from ...scheduler.filters.node_resources_fit import asked_for
from ...scheduler.node_info import NodeInfo, PodLoad, host_ports, pod_key
from ..victims.node_pod import NodePod

Amounts = tuple[int, ...]
"""The amounts by kind of capacity: resources, pod slots, host ports."""

Shape = tuple[int, Amounts, t.Optional[BudgetKey]]
"""The fields ``priority``, ``frees`` and ``budget`` of an ``EvictablePod``."""


class EvictablePod(t.NamedTuple):
    """A pod that may be evicted.

    ``frees``: the amount of each missing kind, at most the missing amount. ``budget``: the budget that its eviction counts against.
    """

    priority: int
    frees: Amounts
    budget: t.Optional[BudgetKey]
    node_pod: NodePod

    @property
    def shape(self) -> Shape:
        """Return ``priority``, ``frees`` and ``budget``. Pods with equal shapes are equal for a search by priority alone."""
        return self[:3]


class Shortage(t.NamedTuple):
    """The missing amounts on a node, only for kinds that are missing, and the pods that may be evicted, the lowest priority first."""

    missing: Amounts
    evictable: list[EvictablePod]


class PodDemand:
    """The demand of one pod on a node, by kinds of capacity: its resources, one pod slot, and its host ports.

    A set of victims that frees less than is missing is never enough. A set that frees it may still not be enough because of other filters:
    nominated pods, affinity, spread, volumes.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles) -> None:
        devices = node_resources_fit.device_class_resources(pod, cluster_state.snapshot.device_classes)
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        asked = asked_for(pod, profile)
        # A resource that a DeviceClass offers is left out: where no device plugin offers it, this plugin does not decide.
        self._requests = [(name, amount) for name, amount in asked if name not in devices]
        self._needs_slot = profile.filters_by(node_resources_fit.PLUGIN)
        self._ports = host_ports(pod) if profile.filters_by("NodePorts") else ()
        # By the missing amounts: the part of them that each load frees. Pods share loads.
        self._freed: dict[Amounts, IdentityDict[Amounts]] = {}

    def shortage_on(self, info: NodeInfo, evictable_pods: Iterable[tuple[NodePod, t.Optional[BudgetKey]]]) -> Shortage:
        """Return the missing capacity on the node.

        ``evictable_pods``: the pods of the node that may be evicted, each with the budget that its eviction counts against.
        """
        missing = self._missing(info)
        freed = self._freed.setdefault(missing, IdentityDict())
        evictable: list[EvictablePod] = []
        for node_pod, budget in evictable_pods:
            load = node_pod.load
            known = freed.get(id(load))
            frees = known[1] if known is not None else freed.keep(id(load), load, self._frees(load, missing))
            evictable.append(EvictablePod(node_pod.priority, frees, budget, node_pod))
        return Shortage(tuple([amount for amount in missing if amount]), evictable)

    @property
    def requests(self) -> t.Sequence[tuple[str, int]]:
        """The resources that must be free, and their amounts."""
        return self._requests

    def has_free(self, info: NodeInfo) -> bool:
        """Return whether the node has the resources and the pod slot free now."""
        offered, requested = info.allocatable, info.requested
        for name, amount in self._requests:
            if amount > offered.get(name, 0) - requested.get(name, 0):
                return False
        return not self._needs_slot or len(info.pods) < info.allowed_pods

    def ports_stay_taken(self, info: NodeInfo, evictable: Iterable[Pod]) -> bool:
        """Return whether a pod that stays on the node uses a host port that the pod needs.

        ``evictable``: the pods that may be evicted.
        """
        if not any(clashes(port, info.used_ports) for port in self._ports if info.used_ports):
            return False
        keys = set(map(pod_key, evictable))
        staying = (load for key, (_pod, load) in info.pods.items() if load.ports and key not in keys)
        return any(_uses_port(load, port) for load in staying for port in self._ports)

    def _missing(self, info: NodeInfo) -> Amounts:
        """Return the missing amount of each kind, 0 if there is enough."""
        offered, requested = info.allocatable, info.requested
        missing = [max(0, amount + requested.get(name, 0) - offered.get(name, 0)) for name, amount in self._requests]
        missing.append(max(0, len(info.pods) + 1 - info.allowed_pods) if self._needs_slot else 0)
        for port in self._ports:
            taken = info.used_ports and clashes(port, info.used_ports)
            missing.append(sum(_uses_port(load, port) for _pod, load in info.pods.values()) if taken else 0)
        return tuple(missing)

    def _frees(self, load: PodLoad, missing: Amounts) -> Amounts:
        frees = [load.requests.get(name, 0) for name, _amount in self._requests]
        frees.append(1)
        frees += [_uses_port(load, port) for port in self._ports]
        # A pod that frees more than the missing amount is not better for that.
        return tuple(min(amount, wanted) for amount, wanted in zip(frees, missing) if wanted)


def _uses_port(load: PodLoad, port: t.Any) -> int:
    return int(any(clashes(port, {taken: (address,)}) for taken, address in load.ports))
