# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the scheduler's filters would say about a pod: the nodes it can run on, and why the others are out.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) with the default plugins of 1.36.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..model.objects import Pod
from ..model.reasons import Reason
from .doubts import pod_doubts
from .doubts import prepare as prepare_doubts
from .eligibility import static_checks
from .node_info import NodeInfo
from .placement import Placement
from .reasons import PASSED, Reasons
from .rules import node_declared_features, node_ports, node_resources, pod_topology_spread

DEFAULT_SCHEDULERS = frozenset({"default-scheduler"})


@dataclass(frozen=True)
class Feasibility:
    """Where a pod can run.

    ``feasible``: node names in the order of the snapshot. ``rejected``: for each other node all reasons of the first plugin that
    rejects it. ``unknown``: what of the pod cannot be judged; unless it is empty, ``feasible`` is an upper bound.
    ``unknown_nodes``: nodes that pass every known rule, with what cannot be judged on them; they are in neither of the others.
    """

    feasible: tuple[str, ...]
    rejected: dict[str, Reasons]
    unknown: Reasons
    unknown_nodes: dict[str, Reasons]

    def counts(self) -> list[tuple[Reason, int]]:
        """How many nodes each reason rejects, most first, then by text, as in the scheduler's message."""
        counter = Counter(reason for reasons in self.rejected.values() for reason in reasons)
        return sorted(counter.items(), key=lambda item: (-item[1], item[0].text))


def find_feasible(
    pod: Pod,
    placement: Placement,
    *,
    node_names: Iterable[str] | None = None,
    schedulers: frozenset[str] = DEFAULT_SCHEDULERS,
    across_nodes: bool = True,
) -> Feasibility:
    """Judge the pod against every node, or those of ``node_names`` that the snapshot has.

    The pod may be one that a template would make (``model.pod_of_template``); its status does not count. ``schedulers`` are the
    names of schedulers known to have the default plugins. Without ``across_nodes`` the rules that count pods of other nodes as well
    are not asked. Raises QuantityError, which names the object.
    """
    check = _checker(pod, placement, prepare_across_nodes(pod, placement) if across_nodes else None)
    doubts_on = prepare_doubts(pod, placement)
    feasible: list[str] = []
    rejected: dict[str, Reasons] = {}
    unknown_nodes: dict[str, Reasons] = {}
    for name in placement.in_order(node_names):
        reasons = check(name)
        if reasons:
            rejected[name] = reasons
            continue
        doubts = doubts_on(placement.snapshot.nodes[name]) if doubts_on is not None else PASSED
        if doubts:
            unknown_nodes[name] = doubts
        else:
            feasible.append(name)
    return Feasibility(tuple(feasible), rejected, pod_doubts(pod, placement, schedulers), unknown_nodes)


def prepare_across_nodes(pod: Pod, placement: Placement) -> t.Callable[[NodeInfo], Reasons] | None:
    """The rules whose answer on a node depends on the pods of other nodes as well; None if they have nothing to say about the pod.

    The answers follow what changes in the placement afterwards.
    """
    return pod_topology_spread.prepare(pod, placement)


def _checker(pod: Pod, placement: Placement, across: t.Callable[[NodeInfo], Reasons] | None) -> t.Callable[[str], Reasons]:
    """The rules in the scheduler's order; those that have nothing to say about the pod are left out."""
    static = static_checks(pod)
    ports = node_ports.prepare(pod)
    room = node_resources.prepare(pod)
    features = node_declared_features.prepare(pod)
    nodes = placement.snapshot.nodes
    dynamic = [rule for rule in (ports, room, across) if rule is not None]

    def check(name: str) -> Reasons:
        node = nodes[name]
        for on_node in static:
            reasons = on_node(node)
            if reasons:
                return reasons
        info: NodeInfo = placement.info(name)
        for on_info in dynamic:
            reasons = on_info(info)
            if reasons:
                return reasons
        return features(node) if features is not None else PASSED

    return check
