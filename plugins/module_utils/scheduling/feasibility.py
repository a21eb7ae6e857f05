# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the scheduler's filters would say about a pod: the nodes it can run on, and why the others are out.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) with the default plugins of 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model.objects import Pod
from ..model.reasons import Reason
from .doubts import NOMINATED, pod_doubts
from .doubts import prepare as prepare_doubts
from .eligibility import static_checks
from .node_info import NodeInfo
from .nominations import Ahead, ahead_of
from .placement import Placement
from .profile import STOCK, STOCK_PROFILES, Profile, Profiles
from .reasons import PASSED, Reasons
from .rules import inter_pod_affinity, node_declared_features, node_ports, node_resources


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
    profiles: Profiles = STOCK_PROFILES,
) -> Feasibility:
    """Judge the pod against every node, or those of ``node_names`` that the snapshot has.

    The pod may be one that a template would make (``model.pod_of_template``); its status does not count. ``profiles`` are those of
    the scheduler: a pod of another one is judged by the stock profile, which is then a doubt. Raises QuantityError, which names
    the object.
    """
    judge = _Judge(pod, placement, profiles.get(pod.spec.scheduler_name, STOCK))
    promised = ahead_of(pod, placement, profiles)
    feasible: list[str] = []
    rejected: dict[str, Reasons] = {}
    unknown_nodes: dict[str, Reasons] = {}
    for name in placement.in_order(node_names):
        reasons, doubts = judge.verdict(name) if name not in promised else judge.verdict_beside(promised[name], name)
        if reasons:
            rejected[name] = reasons
        elif doubts:
            unknown_nodes[name] = doubts
        else:
            feasible.append(name)
    return Feasibility(tuple(feasible), rejected, pod_doubts(pod, placement, profiles), unknown_nodes)


Verdict = tuple[Reasons, Reasons]
"""Why a node is out, and, where it is not, what cannot be judged on it."""


class _Judge:
    """The rules in the scheduler's order; those that have nothing to say about the pod are left out."""

    def __init__(self, pod: Pod, placement: Placement, profile: Profile, *, skipped: Sequence[bool] = ()) -> None:
        self._pod, self._placement, self._profile = pod, placement, profile
        self._static = static_checks(pod, profile)
        dynamic = (
            node_ports.prepare(pod),
            node_resources.prepare(pod, profile),
            inter_pod_affinity.prepare(pod, placement),
        )
        self._skipped = skipped or [rule is None for rule in dynamic]
        self._dynamic = [rule for rule, skip in zip(dynamic, self._skipped) if rule is not None and not skip]
        self._features = node_declared_features.prepare(pod)
        self._doubts = prepare_doubts(pod, placement)

    def verdict(self, name: str) -> Verdict:
        """About the node as it is."""
        reasons = self._reasons(name)
        if reasons or self._doubts is None:
            return reasons, PASSED
        return PASSED, self._doubts(self._placement.snapshot.nodes[name])

    def verdict_beside(self, ahead: Ahead, name: str) -> Verdict:
        """About the node that is promised to other pods: it must do with them and without, because they may never come."""
        reasons, doubts = self._with(ahead.sure, name).verdict(name) if ahead.sure else (PASSED, PASSED)
        if reasons:
            return reasons, PASSED
        reasons, more_doubts = self.verdict(name)
        if reasons:
            return reasons, PASSED
        if ahead.possible and any(self._with([*ahead.sure, *ahead.possible], name).verdict(name)):
            return PASSED, NOMINATED
        return PASSED, doubts or more_doubts

    def _with(self, nominated: Sequence[Pod], name: str) -> _Judge:
        placement = self._placement.fork()
        for pod in nominated:
            placement.assign(pod, name)
        # A plugin that has nothing to say before nominated pods are looked at is not asked with them either.
        return _Judge(self._pod, placement, self._profile, skipped=self._skipped)

    def _reasons(self, name: str) -> Reasons:
        node = self._placement.snapshot.nodes[name]
        for on_node in self._static:
            reasons = on_node(node)
            if reasons:
                return reasons
        info: NodeInfo = self._placement.info(name)
        for on_info in self._dynamic:
            reasons = on_info(info)
            if reasons:
                return reasons
        return self._features(node) if self._features is not None else PASSED


def reach(pod: Pod, moved: Pod, node_name: str, placement: Placement) -> Iterable[str]:
    """The nodes whose answer about ``pod`` may be another when ``moved`` comes to the node or leaves it; always the node itself."""
    return inter_pod_affinity.reach(pod, moved, node_name, placement)
