# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Which single pod to evict so that its replacement evens the workload out. Pure: nothing is done here.

A move is useful if the sums of squared domain counts, one for each topology key, get lexicographically smaller: the key listed first
wins. Every useful move lowers them, so moves that land as planned come to an end.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ..model.api.pod import Pod
from ..model.api.workload import Workload
from ..model.codec import replace
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot, ordinal
from ..model.values.integers import parse_int64
from ..model.values.timestamps import read_time
from ..scheduler.cluster_state import ClusterState
from ..scheduler.feasibility import Feasibility, FilterRunner
from .check import WorkloadReport
from .distribution import SPREAD, Distribution, Topology
from .next_pod import next_pod
from .places import Place, Places, Touched

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MOST_NAMED = 3

Gain = tuple[int, ...]


class Move(t.NamedTuple):
    """The eviction of one pod. ``targets``: the domains of ``topology_key`` with room for its replacement that make it worth while.

    ``node``: one of them that would be best, which nobody promises.
    """

    pod: Pod
    topology_key: str
    source: str
    targets: tuple[str, ...]
    node: str
    reason: Reason

    def play(self, placement: ClusterState) -> Pod:
        """Put the replacement on its node in the placement; returns it."""
        pod = self.pod
        moved = replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}-moved"), spec=replace(pod.spec, node_name=self.node))
        placement.remove(pod)
        placement.assign(moved, self.node)
        return moved


def excess(distributions: Iterable[Distribution]) -> Gain:
    """How far from even the replicas lie, by topology key: the sum of squared counts, above the least one over the eligible domains.

    It is lower where they are spread better. Replicas in domains that are not eligible (any more) count as well: on a cordoned node
    they are as piled up as anywhere. One in no domain at all is worse than all in one.
    """
    return tuple(_excess(distribution) for distribution in distributions)


def _excess(distribution: Distribution) -> int:
    counts, domains, nowhere = distribution.placed.values(), len(distribution.domains), distribution.without_domain
    total = sum(counts) + nowhere
    each, more = divmod(total, domains) if domains else (0, 0)
    least = more * (each + 1) ** 2 + (domains - more) * each**2
    return sum(count**2 for count in counts) + nowhere * total**2 - least


class _Goals:
    """Where a pod of one place should go: places by what each would gain."""

    def __init__(self, places: Places, touched: Touched) -> None:
        self._places = places
        self._touched = touched
        self._kinds: dict[Gain, list[Place]] = {}
        self._single: dict[Gain, list[Place]] = {}
        self._nodes: dict[Gain, list[str]] = {}

    def add_kind(self, kind: Place, gain: Gain) -> None:
        """All places of the kind gain as much, except touched ones."""
        self._kinds.setdefault(gain, []).append(kind)

    def add(self, place: Place, gain: Gain) -> None:
        """The place gains as much."""
        self._single.setdefault(gain, []).append(place)

    @property
    def gains(self) -> list[Gain]:
        """The gains, best first."""
        return sorted({*self._kinds, *self._single})

    def nodes(self, gain: Gain) -> list[str]:
        """The nodes at the places with this gain, by place in the order of each place's first node."""
        found = self._nodes.get(gain)
        if found is None:
            by_kind, touched = self._places.by_kind, self._touched.places
            places = [place for kind in self._kinds.get(gain, ()) for place in by_kind[kind] if place not in touched]
            found = self._nodes[gain] = self._places.nodes_at([*places, *self._single.get(gain, ())])
        return found


class _Aim(t.NamedTuple):
    """A pod that should go, the gain of its best goal, and its goals."""

    best: Gain
    rank: tuple[t.Any, ...]
    pod: Pod
    goals: _Goals


class SurplusPlanner:
    """Plans the evictions of one workload from its line of the spread check, one after the other.

    ``next_move`` says which comes next, ``assume`` plays it through, so that a whole plan can be shown.
    """

    def __init__(self, line: WorkloadReport, snapshot: ClusterSnapshot, placement: ClusterState, topology_keys: Sequence[str]) -> None:
        self._workload = line.workload
        self._revision = snapshot.revision(line.workload)
        self._snapshot = snapshot
        self._placement = placement.fork()
        self._keys = tuple(topology_keys)
        self._pods = snapshot.placed_pods(line.workload)
        topology = snapshot.once(Topology.of)
        self._domains = [topology.groups.domains(key) for key in self._keys]
        self._places = topology.places(self._keys, line.eligible)

    def next_move(self, among: t.Optional[Collection[str]] = None) -> t.Union[Move, Reason]:
        """The next eviction, or the reason why there is none; ``among``: only pods with these uids."""
        counts = self._counts()
        pods = [pod for pod in self._pods if among is None or pod.metadata.uid in among]
        aims = sorted(self._aims(pods, counts), key=lambda aim: (aim.best, aim.rank))
        if not aims:
            return Reason(SPREAD, "no replica has a place that would be better")
        unsure = next_pod(self._workload, self._snapshot).doubts
        if unsure:
            return Reason("unknown", f"whether a replacement would find room is not known: {', '.join(doubt.text for doubt in unsure)}")
        obstacle: t.Optional[tuple[_Aim, Feasibility]] = None
        found: t.Optional[tuple[Gain, _Aim, Feasibility]] = None
        for aim in aims:
            if found is not None and found[0] <= aim.best:
                break
            feasibility = self._feasibility(aim)
            feasible = set(feasibility.feasible)
            gain = next((gain for gain in aim.goals.gains if not feasible.isdisjoint(aim.goals.nodes(gain))), None)
            if feasibility.unknown or gain is None:
                obstacle = obstacle or (aim, feasibility)
            elif found is None or gain < found[0]:
                found = (gain, aim, feasibility)
        if found is not None:
            return self._move(*found, counts)
        if obstacle is None:
            raise AssertionError("unreachable")  # each of the aims is one or the other
        return _no_room(_among(*obstacle))

    def assume(self, move: Move) -> None:
        """Go on as if the replacement had come to the move's node."""
        moved = move.play(self._placement)
        self._pods = [moved if other is move.pod else other for other in self._pods]

    def _place(self, node: str) -> Place:
        return tuple(domains.get(node) for domains in self._domains)

    def _counts(self) -> list[Counter[t.Optional[str]]]:
        places = [self._place(pod.spec.node_name) for pod in self._pods]
        return [Counter(place[index] for place in places) for index in range(len(self._keys))]

    def _aims(self, pods: Iterable[Pod], counts: Sequence[Counter[t.Optional[str]]]) -> Iterable[_Aim]:
        """For each place with useful goals the pods that may go."""
        by_place: dict[Place, list[Pod]] = {}
        for pod in pods:
            by_place.setdefault(self._place(pod.spec.node_name), []).append(pod)
        touched = self._places.touched(counts)
        for source, at_source in by_place.items():
            goals = self._goals(source, counts, touched)
            gains = goals.gains
            for pod in self._first_to_go(at_source) if gains else ():
                yield _Aim(gains[0], self._rank(pod), pod, goals)

    def _goals(self, source: Place, counts: Sequence[Counter[t.Optional[str]]], touched: Touched) -> _Goals:
        """The places to which it is useful to go from ``source``; ``touched``: what the replicas have touched."""
        goals, nothing = _Goals(self._places, touched), (0,) * len(self._keys)
        for kind in touched.kinds:
            gain = _gain(source, kind, counts)
            if gain < nothing:
                goals.add_kind(kind, gain)
        for place in touched.places:
            gain = _gain(source, place, counts)
            if gain < nothing:
                goals.add(place, gain)
        return goals

    def _first_to_go(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """The pod that goes first; where each has claims of its own, another one may find room where that one does not."""
        return pods if self._workload.spec.volume_claim_templates else [min(pods, key=self._rank)]

    def _rank(self, pod: Pod) -> tuple[t.Any, ...]:
        """Pods with lower ranks go first."""
        if self._workload.kind == "StatefulSet":
            return (pod.ready, -ordinal(pod))
        return (pod.ready, _deletion_cost(pod), -(read_time(pod.metadata.creation_timestamp) or 0.0), pod.metadata.name)

    def _feasibility(self, aim: _Aim) -> Feasibility:
        """Where the replacement could go once the pod has left."""
        without = self._placement.fork()
        without.remove(aim.pod)
        return FilterRunner(self._replacement(aim.pod), without).feasibility(self._places.names)

    def _replacement(self, pod: Pod) -> Pod:
        number = ordinal(pod) if self._workload.kind == "StatefulSet" else None
        return next_pod(self._workload, self._snapshot, ordinal=number, revision=self._revision).pod

    def _move(self, gain: Gain, aim: _Aim, feasibility: Feasibility, counts: Sequence[Counter[t.Optional[str]]]) -> Move:
        index = next(index for index, change in enumerate(gain) if change)
        key, count = self._keys[index], counts[index]
        feasible = set(feasibility.feasible)
        upper = (0,) * (index + 1)  # worse for a key listed before, or no better for this one
        goals = [one for one in aim.goals.gains if one[: index + 1] < upper]
        open_nodes = [name for one in goals for name in aim.goals.nodes(one) if name in feasible]
        targets = tuple(dict.fromkeys(str(self._domains[index][name]) for name in open_nodes))
        source = str(self._place(aim.pod.spec.node_name)[index])
        named = ", ".join(f"{domain} ({count[domain]})" for domain in targets[:MOST_NAMED])
        more = f" and {len(targets) - MOST_NAMED} more" if len(targets) > MOST_NAMED else ""
        text = f"{pluralize(count[source], 'replica')} in {key}={source}, room for one of them in {named}{more}"
        return Move(aim.pod, key, source, targets, open_nodes[0], Reason("surplus", text))


def _among(aim: _Aim, feasibility: Feasibility) -> Feasibility:
    """The answers about the nodes of the aim's goals."""
    names = {name for gain in aim.goals.gains for name in aim.goals.nodes(gain)}
    rejected = {name: reasons for name, reasons in feasibility.rejected.items() if name in names}
    unknown_nodes = {name: reasons for name, reasons in feasibility.unknown_nodes.items() if name in names}
    return Feasibility(tuple(name for name in feasibility.feasible if name in names), rejected, feasibility.unknown, unknown_nodes)


def _gain(source: Place, target: Place, counts: Sequence[Counter[t.Optional[str]]]) -> Gain:
    """The change of the sums of squares if one replica goes from ``source`` to ``target``; less than nothing is better."""
    return tuple(
        0 if old == new else 2 * count[new] + 1 - (2 * count[old] - 1 if old is not None else sum(count.values()) ** 2)
        for old, new, count in zip(source, target, counts)
    )


def _deletion_cost(pod: Pod) -> int:
    """What the pod's owner says it costs to lose it (kubernetes ``controller/controller_utils.go``: what is no number counts as 0)."""
    return parse_int64((pod.metadata.annotations or {}).get(DELETION_COST, "")) or 0


def _no_room(feasibility: Feasibility) -> Reason:
    if feasibility.unknown:
        texts = ", ".join(reason.text for reason in feasibility.unknown)
        return Reason("unknown", f"whether a replacement would find room is not known: {texts}")
    unsure = Counter(reason for reasons in feasibility.unknown_nodes.values() for reason in reasons)
    texts = ", ".join(f"{reason.text} ({pluralize(nodes, 'node')})" for reason, nodes in [*feasibility.counts(), *unsure.items()])
    return Reason("unknown" if unsure else "no_room", f"no domain with fewer replicas is known to have room for a replacement: {texts}")


def pods_of(workload: Workload, snapshot: ClusterSnapshot) -> list[Pod]:
    """The workload's unfinished pods, of any revision."""
    return [pod for pod in snapshot.owned_pods(workload) if not pod.terminal]
