# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the scheduler's filters would say about a pod: the nodes it can run on, and why the others are out.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) with the default plugins of 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.codec import replace
from ..model.reason import PASSED, Reason, Reasons
from . import device_doubts, volume_doubts
from .across_nodes import AcrossNodes
from .alone import AlikePods, Alone, AsRead, alike
from .doubts import NOMINATED, pod_doubts, undecodable_pods
from .eligibility import static_checks
from .filters import (
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_ports,
    node_resources,
    node_volume_limits,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from .many_rules import bounded
from .node_info import NodeInfo, PodLoad
from .nominations import Ahead, ahead_of
from .placement import Placement, pod_key
from .profile import STOCK, STOCK_PROFILES, Profiles


@dataclass(frozen=True)
class Feasibility:
    """Where a pod can run.

    ``feasible``: node names in the order of the snapshot. ``rejected``: for each other node all reasons of the first plugin that
    rejects it. ``unknown``: what of the pod cannot be judged; unless it is empty, ``feasible`` is an upper bound.
    ``unknown_nodes``: nodes that pass every known rule, with what cannot be judged on them; they are in neither of the others.
    """

    feasible: tuple[str, ...]
    rejected: Mapping[str, Reasons]
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
    profiles: Profiles = STOCK_PROFILES,
) -> Feasibility:
    """Judge the pod against every node, or those of ``node_names`` that the snapshot has.

    The pod may be one that a template would make (``model.pod_of_template``); its status does not count. ``profiles`` are those of
    the scheduler: a pod of another one is judged by the stock profile, which is then a doubt. Raises QuantityError, which names
    the object.
    """
    return Judge(pod, placement, profiles).feasibility(node_names)


Verdict = tuple[Reasons, Reasons]
"""Why a node is out, and, where it is not, what cannot be judged on it."""

UNCONTESTED: Verdict = (PASSED, PASSED)


class Judge:
    """The rules about one pod in the scheduler's order; those that have nothing to say about it are left out.

    The verdicts follow what changes in the placement. ``unknown`` is that of ``Feasibility``.
    """

    def __init__(self, pod: Pod, placement: Placement, profiles: Profiles = STOCK_PROFILES) -> None:
        profile = profiles.get(pod.spec.scheduler_name, STOCK)
        spec, too_many = bounded(pod.spec)
        pod = pod if spec is pod.spec else replace(pod, spec=spec)
        self.unknown = (*pod_doubts(pod, placement, profiles), *too_many)
        self._pod, self._placement, self._profiles = pod, placement, profiles
        self._nodes, self._changed = placement.snapshot.nodes, placement.changed
        self._closed = _closed_to_all(pod, placement)
        self._on_node = static_checks(pod, profile)
        self._restrictions = volume_restrictions.prepare(pod, placement)
        devices = device_doubts.resources(pod, placement)
        on_volumes = (
            self._restrictions,
            node_volume_limits.prepare(pod, placement),
            volume_binding.prepare(pod, placement),
            volume_zone.prepare(pod, placement),
        )
        on_info = (node_ports.prepare(pod), node_resources.prepare(pod, profile, devices), *on_volumes)
        self._on_info = [rule for rule in on_info if rule is not None]
        across = (pod_topology_spread.prepare(pod, placement), inter_pod_affinity.prepare(pod, placement))
        self._across: list[AcrossNodes] = [rule for rule in across if rule is not None]
        self._features = node_declared_features.prepare(pod)
        doubts = (
            device_doubts.prepare(pod, placement, profile, devices),
            volume_doubts.prepare(pod, placement),
            undecodable_pods(placement),
        )
        self._doubts = [doubt for doubt in doubts if doubt is not None]
        # What the rules before those across nodes say of a node: only a change on the node itself makes that another, or a claim
        # for one pod at a time that is taken or given back.
        self._on_claims = any(rule is not None for rule in on_volumes)
        self._alike = AlikePods() if self._on_claims else placement.alike_pods(alike(pod, profile, devices))
        # The verdicts; what a rule across nodes has counted anew can make any of them another.
        self._verdicts: dict[str, Verdict] = {}
        # By the identity of what nodes offer: the verdict on a node without pods, by the rules about one node.
        self._on_empty: dict[int, Verdict] = {}
        self._turn = 0
        self._seen = 0
        self._count_changes()

    def feasibility(self, node_names: Iterable[str] | None = None) -> Feasibility:
        """The verdicts on every node, or those of ``node_names`` that the snapshot has.

        A tuple of names that the snapshot has, in its order, is answered once for all pods that are alike.
        """
        self._catch_up()
        if self._closed:
            return Feasibility((), dict.fromkeys(self._placement.in_order(node_names), self._closed), self.unknown, {})
        if isinstance(node_names, tuple) and not self._on_claims:
            return self._feasibility_as_read(self._as_read(node_names))
        return self._feasibility_of(self._placement.in_order(node_names))

    def _feasibility_of(self, names: Iterable[str]) -> Feasibility:
        feasible: list[str] = []
        rejected: dict[str, Reasons] = {}
        unknown_nodes: dict[str, Reasons] = {}
        # Nothing changes in here, so no verdict goes out of date.
        known, alone, changed = self._verdicts, self._alike.nodes, self._changed
        nothing_else = self._nothing_across and not self._promised
        for name in names:
            if nothing_else:
                on_node = alone.get(name)
                if on_node is not None and on_node.changed is changed.get(name):
                    if on_node.reasons:
                        rejected[name] = on_node.reasons
                    else:
                        feasible.append(name)
                    continue
            verdict = known.get(name)
            if verdict is None:
                verdict = known[name] = self._judge(name)
            reasons, doubts = verdict
            if reasons:
                rejected[name] = reasons
            elif doubts:
                unknown_nodes[name] = doubts
            else:
                feasible.append(name)
        return Feasibility(tuple(feasible), rejected, self.unknown, unknown_nodes)

    def _feasibility_as_read(self, read: AsRead) -> Feasibility:
        """From the answers about nodes as they were read, and what is different now."""
        others = read.open if not self._nothing_across else ()
        special = read.members.intersection({*self._changed, *self._promised})
        asked = self._feasibility_of(self._placement.in_order([*special, *others]))
        closed = {name: reasons for name, reasons in asked.rejected.items() if read.rejected.get(name) != reasons}
        opened = [name for name in (*asked.feasible, *asked.unknown_nodes) if name in read.rejected]
        if not closed and not opened and not asked.unknown_nodes:
            return Feasibility(read.open, read.rejected, self.unknown, {})
        rejected = {**read.rejected, **closed}
        for name in opened:
            del rejected[name]
        out = rejected.keys() | asked.unknown_nodes.keys()
        return Feasibility(tuple(name for name in read.names if name not in out), rejected, self.unknown, asked.unknown_nodes)

    def _as_read(self, names: tuple[str, ...]) -> AsRead:
        return self._alike.as_read(names, lambda name: self._look_into(self._nodes[name], self._placement.info_as_read(name)))

    def open_alone(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the nodes, which the snapshot has and which are in its order, that can be open where nothing has changed on them.

        The rules about one node alone close the others as the snapshot has them. Pods that are alike get the same tuple.
        """
        if self._closed:
            return ()
        return names if self._on_claims else self._as_read(names).open

    @property
    def topology_keys(self) -> frozenset[str]:
        """The topology keys by which rules about other nodes may close domains."""
        return frozenset(key for rule in self._across for key in rule.topology_keys)

    def has_room_for(self, pods: int, names: tuple[str, ...]) -> bool:
        """Whether so many pods like this one surely find room on these nodes, as of ``open_alone``, one after the other.

        False also where only the attempt can tell. A pod takes room on one node only. Rules about other nodes that are silent stay silent
        as long as no pods come but those like this one.
        """
        self._catch_up()
        if self._closed or self._on_claims or self._promised or self.unknown or not self._nothing_across:
            return False
        return len(self._as_read(names).open) - len(self._changed) >= pods

    def closes(self, topology_key: str, domain: str | None) -> bool:
        """Whether such a rule rejects all nodes of the domain now; None for the nodes without the key."""
        self._catch_up()
        return any(rule.closes(topology_key, domain) for rule in self._speaking)

    @property
    def turn(self) -> int:
        """Another number as soon as a verdict may be another one on a node on which nothing has changed."""
        self._catch_up()
        return self._turn

    def verdict(self, name: str) -> Verdict:
        """The verdict on a node that the snapshot has."""
        if self._closed:
            return self._closed, PASSED
        self._catch_up()
        verdict = self._verdicts.get(name)
        if verdict is None:
            verdict = self._verdicts[name] = self._judge(name)
        return verdict

    def verdict_without(self, name: str, gone: Iterable[Pod]) -> Verdict | None:
        """The verdict on a node that the snapshot has, once these pods of it have left.

        None where it depends on more than what stays on the node: then ask about a placement without them.
        """
        if self._closed:
            return self._closed, PASSED
        self._catch_up()
        if self._on_claims or self._features or self._doubts or name in self._promised:
            return None
        speaking, node, info = self._speaking, self._nodes[name], self._placement.info(name)
        if any(rule.in_doubt for rule in speaking):
            return None
        keys = set(map(pod_key, gone))
        reasons = self._look_into(node, info.without_pods(keys))
        there = [info.pods[key][0] for key in keys if key in info.pods] if speaking and not reasons else []
        for rule in speaking if not reasons else ():
            reasons = reasons or rule.rejection_without(node, there)
        return reasons, PASSED

    def shuts(self, name: str, leaving: Sequence[Pod]) -> bool:
        """A rule about other nodes too surely closes the node, which the snapshot has, whichever of these pods, which are on it, leave."""
        self._catch_up()
        return any(rule.shuts(self._nodes[name], leaving) for rule in self._speaking)

    def verdict_on_empty(self, name: str) -> Verdict | None:
        """The verdict on a node that the static rules open, once all pods have left it; None as in ``verdict_without``."""
        if self._closed:
            return self._closed, PASSED
        self._catch_up()
        if self._on_claims or not self._nothing_across or name in self._promised:
            return None
        # Of a node without pods the other rules see only what it offers, which equal nodes share and the placement keeps.
        offered = self._placement.info_as_read(name).allocatable
        known = self._on_empty.get(id(offered))
        if known is None:
            empty = NodeInfo.build(self._nodes[name], offered, {})
            known = self._on_empty[id(offered)] = next(filter(None, (rule(empty) for rule in self._on_info)), PASSED), PASSED
        return known

    def _catch_up(self) -> None:
        if self._seen != len(self._placement.changes):
            self._count_changes()

    def _count_changes(self) -> None:
        changes = self._placement.changes[self._seen :]
        self._seen += len(changes)
        for change in changes:
            self._verdicts.pop(change.node_name, None)
        if self._restrictions is not None and self._restrictions.turns():
            self._alike.nodes.clear()
            self._forget_verdicts()
        # A doubt may be about all nodes, and come with whatever pod has moved.
        counted = [rule.follow(changes) for rule in self._across]
        if True in counted or (changes and self._doubts):
            self._forget_verdicts()
        self._speaking = [rule for rule in self._across if rule.speaks]
        self._nothing_across = not (self._speaking or self._features or self._doubts)
        self._promised = ahead_of(self._pod, self._placement, self._profiles)

    def _forget_verdicts(self) -> None:
        self._verdicts.clear()
        self._turn += 1

    def _judge(self, name: str) -> Verdict:
        node = self._nodes[name]
        if name in self._promised:
            return self._verdict_beside(self._promised[name], node)
        changed = self._changed.get(name)
        known = self._alike.nodes.get(name)
        if known is None or known.changed is not changed:
            known = self._alike.nodes[name] = Alone(changed, self._look_at(node, ()))
        reasons = known.reasons
        if reasons:
            return reasons, PASSED
        return UNCONTESTED if self._nothing_across else self._look_across(node, self._speaking, ())

    def _verdict_beside(self, ahead: Ahead, node: Node) -> Verdict:
        """About the node that is promised to other pods: it must do with them and without, because they may never come."""
        reasons, doubts = self._verdict_with(ahead.sure, node) if ahead.sure else UNCONTESTED
        if reasons:
            return reasons, PASSED
        reasons, more_doubts = self._verdict_with((), node)
        if reasons:
            return reasons, PASSED
        if ahead.possible and any(self._verdict_with((*ahead.sure, *ahead.possible), node)):
            return PASSED, NOMINATED
        return PASSED, doubts or more_doubts

    def _verdict_with(self, nominated: Sequence[Pod], node: Node) -> Verdict:
        reasons = self._look_at(node, nominated)
        if reasons:
            return reasons, PASSED
        rules = [rule.beside(nominated, node.name) for rule in self._speaking] if nominated else self._speaking
        return self._look_across(node, rules, nominated)

    def _look_at(self, node: Node, nominated: Sequence[Pod]) -> Reasons:
        return self._look_into(node, self._info(node, nominated) if nominated else self._placement.info(node.metadata.name))

    def _look_into(self, node: Node, info: NodeInfo) -> Reasons:
        for on_node in self._on_node:
            reasons = on_node(node)
            if reasons:
                return reasons
        for on_info in self._on_info:
            reasons = on_info(info)
            if reasons:
                return reasons
        return PASSED

    def _info(self, node: Node, nominated: Sequence[Pod]) -> NodeInfo:
        info = self._placement.info(node.name)
        for pod in nominated:
            info = info.with_pod(pod_key(pod), pod, PodLoad.of(pod))
        return info

    def _look_across(self, node: Node, rules: Sequence[AcrossNodes], nominated: Sequence[Pod]) -> Verdict:
        for rule in rules:
            reasons = rule.rejection(node)
            if reasons:
                return reasons, PASSED
        reasons = self._features(node) if self._features is not None else PASSED
        if reasons:
            return reasons, PASSED
        for rule in rules:
            doubts = rule.doubt(node)
            if doubts:
                return PASSED, doubts
        if not self._doubts:
            return UNCONTESTED
        info = self._info(node, nominated)
        return PASSED, tuple(reason for doubt in self._doubts for reason in doubt(info))


def _closed_to_all(pod: Pod, placement: Placement) -> Reasons:
    """Why a claim of the pod closes every node before any is looked at (the scheduler's PreFilter)."""
    volumes = placement.volumes_of(pod)
    if volumes is None or not volumes.rejected or node_affinity.is_conflict(pod):
        return PASSED
    return volumes.rejected
