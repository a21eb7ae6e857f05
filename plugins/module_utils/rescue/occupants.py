# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a pod lacks on a node, and what each of the pods there would free of it: room and host ports, and no other rule."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.pod import Pod
from ..scheduler.cluster_state import ClusterState
from ..scheduler.filters import node_resources_fit
from ..scheduler.filters.node_ports import clashes, host_ports
from ..scheduler.filters.node_resources_fit import asked_for
from ..scheduler.node_info import NodeInfo, PodLoad, pod_key
from ..scheduler.profile import DEFAULT_PROFILE, Profiles
from .budgets import BudgetKey
from .options import RescueOptions
from .residents import Resident, residents_of
from .subsets import Amounts
from .victims import EvictionRules


class Evictable(t.NamedTuple):
    """A pod that may go. ``frees``: of each kind that is lacking, no more than is lacking; ``budget``: what its eviction draws on."""

    priority: int
    frees: Amounts
    budget: t.Optional[BudgetKey]
    pod: Pod
    resident: Resident


class Occupants(t.NamedTuple):
    """What is lacking on a node, only kinds of which something is, and who may go, the lowest priority first."""

    lacking: Amounts
    evictable: list[Evictable]


class Demand:
    """What one pod needs on a node, as kinds of room: its resources, a place among the node's pods, and its host ports.

    A set that frees less than is lacking cannot do. One that frees it may still not do, by other rules: pods nominated for the node,
    affinity, spread, volumes.
    """

    def __init__(self, pod: Pod, placement: ClusterState, profiles: Profiles) -> None:
        devices = node_resources_fit.device_class_resources(pod, placement.snapshot.device_classes)
        asked = asked_for(pod, profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE))
        # Where no device plugin offers such a resource, this is not what decides.
        self._asked = [(name, amount) for name, amount in asked if name not in devices]
        self._ports = host_ports(pod)
        # By the kinds that are lacking: what each load frees of them. Loads are shared, and kept so that no other gets its id.
        self._freed: dict[Amounts, dict[int, tuple[PodLoad, Amounts]]] = {}

    def occupants(self, info: NodeInfo, rules: EvictionRules, options: RescueOptions) -> Occupants:
        """What is lacking on the node, and who may go."""
        lacking = self._lacking(info)
        freed = self._freed.setdefault(lacking, {})
        evictable: list[Evictable] = []
        for resident, budget in rules.may_go(residents_of(info, options).movable):
            load = resident.load
            known = freed.get(id(load))
            if known is None:
                known = freed[id(load)] = (load, self._frees(load, lacking))
            evictable.append(Evictable(resident.priority, known[1], budget, resident.pod, resident))
        return Occupants(tuple([amount for amount in lacking if amount]), evictable)

    @property
    def asked(self) -> t.Sequence[tuple[str, int]]:
        """The resources that have to be there, and their amounts."""
        return self._asked

    def ports_stay_taken(self, info: NodeInfo, leaving: Iterable[Pod]) -> bool:
        """Other pods of the node than those that may leave it have a host port that the pod needs."""
        if not any(clashes(port, info.used_ports) for port in self._ports if info.used_ports):
            return False
        keys = set(map(pod_key, leaving))
        staying = (load for key, (_pod, load) in info.pods.items() if load.ports and key not in keys)
        return any(_holds(load, port) for load in staying for port in self._ports)

    def _lacking(self, info: NodeInfo) -> Amounts:
        """What is lacking of each kind, 0 where there is enough."""
        offered, requested = info.allocatable, info.requested
        missing = [max(0, amount + requested.get(name, 0) - offered.get(name, 0)) for name, amount in self._asked]
        missing.append(max(0, len(info.pods) + 1 - info.allowed_pods))
        for port in self._ports:
            taken = info.used_ports and clashes(port, info.used_ports)
            missing.append(sum(_holds(load, port) for _pod, load in info.pods.values()) if taken else 0)
        return tuple(missing)

    def _frees(self, load: PodLoad, lacking: Amounts) -> Amounts:
        frees = [load.requests.get(name, 0) for name, _amount in self._asked]
        frees.append(1)
        frees += [_holds(load, port) for port in self._ports]
        # More than is lacking is worth no more than what is.
        return tuple(min(amount, wanted) for amount, wanted in zip(frees, lacking) if wanted)


def _holds(load: PodLoad, port: t.Any) -> int:
    return int(any(clashes(port, {taken: (address,)}) for taken, address in load.ports))
