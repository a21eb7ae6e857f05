# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The plan of evictions: the single pod whose replacement makes the workload more even.

It has no side effects. A move is useful if the sums of squared domain counts, one for each topology key, become lexicographically smaller.
The key that is listed first therefore has precedence. A move that collapses the workload over a key is not useful. Every useful move lowers
the sums, so a sequence of moves whose replacements reach their target ends.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ...model.api.pod import Pod
from ...model.codec import replace
from ...model.messages import pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot, ordinal
from ...model.values.integers import parse_int64
from ...model.values.timestamps import read_time
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import Feasibility, FilterRunner
from ...scheduler.scores.scorer import Scorer
from ..advice.advice import SCORING_DOES_NOT_SPREAD
from ..next_pod.next_pod import next_pod
from ..prediction.scored_node import DRAWS, Draw, Draws, ScoredNode, ScoresUnknownError, by_chance, terminating_copy
from ..restart.options import RestartOptions
from ..restart.run_limits import LIMIT_REACHED, WorkloadLimits
from ..skew_cost import Gain
from ..spread_report import WorkloadReport
from ..topology.domain_tuples import DomainTuple, DomainTuples, TouchedTuples
from ..topology.topology import Topology
from ..verdict import SPREAD

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MAX_NAMED = 3
UNKNOWN_NODE = "it is unknown which node the scheduler chooses for a replacement"


class Move(t.NamedTuple):
    """The eviction of one pod.

    ``targets`` are the domains of ``topology_key`` that have capacity for the replacement and make the move useful. ``node`` is the node
    that the scheduler chooses by its scores, or one of these nodes if it chooses at random.
    """

    pod: Pod
    topology_key: str
    source: str
    targets: tuple[str, ...]
    node: str
    reason: Reason

    def apply_to(self, cluster_state: ClusterState) -> Pod:
        """Replace the pod by its replacement on ``node`` in the cluster state. Return the replacement."""
        pod = self.pod
        moved = replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}-moved"), spec=replace(pod.spec, node_name=self.node))
        cluster_state.remove(pod)
        cluster_state.assign(moved, self.node)
        return moved


class _TargetNodes:
    """The useful target domain tuples for a pod of one source, by their gain."""

    def __init__(self, domain_tuples: DomainTuples, touched: TouchedTuples) -> None:
        self._domain_tuples = domain_tuples
        self._touched = touched
        self._kinds: dict[Gain, list[DomainTuple]] = {}
        self._single: dict[Gain, list[DomainTuple]] = {}
        self._nodes: dict[Gain, list[str]] = {}

    def add_kind(self, kind: DomainTuple, gain: Gain) -> None:
        """Add all domain tuples of the kind with this gain, except touched ones."""
        self._kinds.setdefault(gain, []).append(kind)

    def add(self, domain_tuple: DomainTuple, gain: Gain) -> None:
        """Add the domain tuple with this gain."""
        self._single.setdefault(gain, []).append(domain_tuple)

    @property
    def gains(self) -> list[Gain]:
        """The gains, best first."""
        return sorted({*self._kinds, *self._single})

    def nodes(self, gain: Gain) -> list[str]:
        """Return the nodes of the domain tuples with this gain. Domain tuples are in the order of their first node."""
        found = self._nodes.get(gain)
        if found is None:
            by_kind, touched = self._domain_tuples.by_kind, self._touched.domain_tuples
            domain_tuples = [
                domain_tuple for kind in self._kinds.get(gain, ()) for domain_tuple in by_kind[kind] if domain_tuple not in touched
            ]
            found = self._nodes[gain] = self._domain_tuples.nodes_at([*domain_tuples, *self._single.get(gain, ())])
        return found


class _EvictionCandidate(t.NamedTuple):
    """A pod whose eviction is useful, the gain of its best target, and its targets."""

    best: Gain
    rank: tuple[t.Any, ...]
    pod: Pod
    target_nodes: _TargetNodes


class EvictionPlanner:
    """Plans the evictions of one workload from its report of the spread check, one after the other.

    ``next_move`` returns the next eviction. ``assume`` simulates it, so that a whole plan can be shown. Without ``by_scores``, a move is
    useful if the replacement can run on a better node, even if the scores of the scheduler choose another one.
    """

    def __init__(
        self,
        report: WorkloadReport,
        snapshot: ClusterSnapshot,
        cluster_state: ClusterState,
        topology_keys: Sequence[str],
        *,
        by_scores: bool = True,
    ) -> None:
        self._workload = report.workload
        self._revision = snapshot.revision(report.workload)
        self._by_scores = by_scores
        self._draws = snapshot.once(Draws)
        self._snapshot = snapshot
        self._cluster_state = cluster_state.fork()
        self._keys = tuple(topology_keys)
        self._pods = snapshot.placed_pods(report.workload)
        topology = snapshot.once(Topology.of)
        self._domains = [topology.groups.domains(key) for key in self._keys]
        self._domain_tuples = topology.domain_tuples(self._keys, report.eligible)

    def next_allowed_move(self, limits: WorkloadLimits, among: t.Optional[Collection[str]] = None) -> t.Union[Move, Reason]:
        """Return the next eviction within the limits, or the reason why there is none. ``among`` as for ``next_move``.

        If a limit forbids the best eviction, a pod of another node may be evicted.
        """
        move = self.next_move(among)
        limited = None if isinstance(move, Reason) else limits.violation(move.pod)
        if limited is None:
            return move
        uids = [pod.metadata.uid for pod in self._pods if limits.violation(pod) is None]
        other = self.next_move([uid for uid in uids if among is None or uid in among])
        return other if isinstance(other, Move) else limited

    def next_move(self, among: t.Optional[Collection[str]] = None) -> t.Union[Move, Reason]:
        """Return the next eviction, or the reason why there is none. With ``among``, only pods with these uids are candidates."""
        counts = self._counts()
        pods = [pod for pod in self._pods if among is None or pod.metadata.uid in among]
        candidates = sorted(self._candidates(pods, counts), key=lambda candidate: (candidate.best, candidate.rank))
        if not candidates:
            return Reason(SPREAD, "no replica can move to a better domain")
        unknown = next_pod(self._workload, self._snapshot).unknown
        if unknown:
            return Reason(
                "unknown",
                f"it is unknown whether a node has free capacity for a replacement: {', '.join(reason.text for reason in unknown)}",
            )
        rejected: t.Optional[tuple[_EvictionCandidate, Feasibility]] = None
        found: t.Optional[tuple[Gain, _EvictionCandidate, Feasibility, str]] = None
        no_use: t.Optional[Reason] = None
        for candidate in candidates:
            if found is not None and found[0] <= candidate.best:
                break
            feasibility = self._feasibility(candidate)
            feasible = set(feasibility.feasible)
            gain = next(
                (gain for gain in candidate.target_nodes.gains if not feasible.isdisjoint(candidate.target_nodes.nodes(gain))), None
            )
            if feasibility.unknown or gain is None:
                rejected = rejected or (candidate, feasibility)
            elif found is None or gain < found[0]:
                open_nodes = (name for name in candidate.target_nodes.nodes(gain) if name in feasible)
                node = self._node_by_scores(candidate) if self._by_scores else next(open_nodes)
                if isinstance(node, Reason):
                    no_use = no_use or node
                else:
                    found = (gain, candidate, feasibility, node)
        if found is not None:
            return self._move(*found, counts)
        if no_use is not None:
            return no_use
        if rejected is None:
            raise AssertionError("unreachable")  # the first candidate sets found, no_use or rejected
        return _no_capacity(_among(*rejected))

    def _node_by_scores(self, candidate: _EvictionCandidate) -> t.Union[str, Reason]:
        """Return the node that the scheduler chooses for the replacement, or the reason why that may be of no use.

        It is of use if the node is in a target of the candidate, in each of several simulations with other choices of the scheduler.
        """
        pod = candidate.pod
        is_awaited = self._workload.kind == "StatefulSet"
        without = self._cluster_state.fork()
        without.remove(pod)
        beside = without.fork()
        if pod.spec.node_name in self._snapshot.nodes:
            beside.assign(terminating_copy(pod), pod.spec.node_name)
        useful = {name for gain in candidate.target_nodes.gains for name in candidate.target_nodes.nodes(gain)}
        replacement = self._replacement(pod)
        nodes: list[t.Optional[str]] = []
        for number in range(DRAWS):
            draw = self._draws.of(self._workload, number)
            try:
                node = self._choose(replacement, beside, draw) if draw.ends_late and not is_awaited else None
                # The scheduler tries again when the pod has ended.
                node = node or self._choose(replacement, without, draw)
            except ScoresUnknownError as error:
                return Reason("unknown", f"{UNKNOWN_NODE}: {', '.join(reason.text for reason in error.reasons)}")
            nodes.append(node)
        successes = sum(node in useful for node in nodes)
        if successes == DRAWS:
            return next(name for name in self._domain_tuples.eligible if name in nodes)
        if not successes:
            return Reason(
                SCORING_DOES_NOT_SPREAD,
                f"a node has free capacity for a replacement, and the scores of the scheduler choose {nodes[0] or 'none'}",
            )
        return by_chance(successes, "simulated replacements are in a domain with fewer replicas", sampled=draw.search is not None)

    def _choose(self, pod: Pod, cluster_state: ClusterState, draw: Draw) -> t.Optional[str]:
        runner = FilterRunner(pod, cluster_state)
        return ScoredNode(runner, Scorer(pod, cluster_state), self._domain_tuples.eligible, draw, accept_unknown=False).find()

    def assume(self, move: Move) -> None:
        """Assume that the replacement runs on the move's node."""
        moved = move.apply_to(self._cluster_state)
        self._pods = [moved if other is move.pod else other for other in self._pods]

    def _domain_tuple(self, node: str) -> DomainTuple:
        return tuple(domains.get(node) for domains in self._domains)

    def _counts(self) -> list[Counter[t.Optional[str]]]:
        domain_tuples = [self._domain_tuple(pod.spec.node_name) for pod in self._pods]
        return [Counter(domain_tuple[index] for domain_tuple in domain_tuples) for index in range(len(self._keys))]

    def _candidates(self, pods: Iterable[Pod], counts: Sequence[Counter[t.Optional[str]]]) -> Iterable[_EvictionCandidate]:
        """Yield the candidate pods of each domain tuple that has useful targets."""
        by_domain_tuple: dict[DomainTuple, list[Pod]] = {}
        for pod in pods:
            by_domain_tuple.setdefault(self._domain_tuple(pod.spec.node_name), []).append(pod)
        touched = self._domain_tuples.touched(counts)
        for source, at_source in by_domain_tuple.items():
            target_nodes = self._target_nodes_from(source, counts, touched)
            gains = target_nodes.gains
            for pod in self._first_to_go(at_source) if gains else ():
                yield _EvictionCandidate(gains[0], self._rank(pod), pod, target_nodes)

    def _target_nodes_from(self, source: DomainTuple, counts: Sequence[Counter[t.Optional[str]]], touched: TouchedTuples) -> _TargetNodes:
        """Return the useful targets for a replica of ``source``. ``touched`` are the domain tuples that replicas have touched."""
        target_nodes = _TargetNodes(self._domain_tuples, touched)
        for kind in touched.kinds:
            gain = _useful_gain(source, kind, counts)
            if gain is not None:
                target_nodes.add_kind(kind, gain)
        for domain_tuple in touched.domain_tuples:
            gain = _useful_gain(source, domain_tuple, counts)
            if gain is not None:
                target_nodes.add(domain_tuple, gain)
        return target_nodes

    def _first_to_go(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pod that is evicted first.

        If the pods have claims of their own, return all, because a node may fit the claims of one and not of another.
        """
        return pods if self._workload.spec.volume_claim_templates else [min(pods, key=self._rank)]

    def _rank(self, pod: Pod) -> tuple[t.Any, ...]:
        """Return the sort key of the pod. Pods with lower keys are evicted first."""
        if self._workload.kind == "StatefulSet":
            return (pod.ready, -ordinal(pod))
        return (pod.ready, _deletion_cost(pod), -(read_time(pod.metadata.creation_timestamp) or 0.0), pod.metadata.name)

    def _feasibility(self, candidate: _EvictionCandidate) -> Feasibility:
        """Return the feasible nodes of the replacement in a cluster state without the pod."""
        without = self._cluster_state.fork()
        without.remove(candidate.pod)
        return FilterRunner(self._replacement(candidate.pod), without).feasibility(self._domain_tuples.names)

    def _replacement(self, pod: Pod) -> Pod:
        number = ordinal(pod) if self._workload.kind == "StatefulSet" else None
        return next_pod(self._workload, self._snapshot, ordinal=number, revision=self._revision).pod

    def _move(
        self, gain: Gain, candidate: _EvictionCandidate, feasibility: Feasibility, node: str, counts: Sequence[Counter[t.Optional[str]]]
    ) -> Move:
        index = next(index for index, change in enumerate(gain) if change)
        key, count = self._keys[index], counts[index]
        feasible = set(feasibility.feasible)
        upper = (0,) * (index + 1)  # this excludes gains that are worse for a key listed before or no better for this key
        target_nodes = [one for one in candidate.target_nodes.gains if one[: index + 1] < upper]
        open_nodes = [name for one in target_nodes for name in candidate.target_nodes.nodes(one) if name in feasible]
        targets = tuple(dict.fromkeys(str(self._domains[index][name]) for name in open_nodes))
        source = str(self._domain_tuple(candidate.pod.spec.node_name)[index])
        named = ", ".join(f"{domain} ({count[domain]})" for domain in targets[:MAX_NAMED])
        more = f" and {len(targets) - MAX_NAMED} more" if len(targets) > MAX_NAMED else ""
        text = f"{pluralize(count[source], 'replica')} in {key}={source}, one of them can move to {named}{more}"
        return Move(candidate.pod, key, source, targets, node, Reason("surplus", text))


def _among(candidate: _EvictionCandidate, feasibility: Feasibility) -> Feasibility:
    """Return the filter results for the nodes of the candidate's targets only."""
    names = {name for gain in candidate.target_nodes.gains for name in candidate.target_nodes.nodes(gain)}
    rejected = {name: reasons for name, reasons in feasibility.rejected.items() if name in names}
    unknown_nodes = {name: reasons for name, reasons in feasibility.unknown_nodes.items() if name in names}
    return Feasibility(tuple(name for name in feasibility.feasible if name in names), rejected, feasibility.unknown, unknown_nodes)


def _useful_gain(source: DomainTuple, target: DomainTuple, counts: Sequence[Counter[t.Optional[str]]]) -> t.Optional[Gain]:
    """Return the gain of a move from ``source`` to ``target``. None if the move is not useful."""
    gain = _gain(source, target, counts)
    return gain if gain < (0,) * len(gain) and not _collapses(source, target, counts) else None


def _gain(source: DomainTuple, target: DomainTuple, counts: Sequence[Counter[t.Optional[str]]]) -> Gain:
    """Return the change of the sums of squares if one replica moves from ``source`` to ``target``. A negative change is better."""
    return tuple(
        0 if old == new else 2 * count[new] + 1 - (2 * count[old] - 1 if old is not None else sum(count.values()) ** 2)
        for old, new, count in zip(source, target, counts)
    )


def _collapses(source: DomainTuple, target: DomainTuple, counts: Sequence[Counter[t.Optional[str]]]) -> bool:
    """Return whether the move puts all replicas into one domain of a key, although they are in several."""
    for old, new, count in zip(source, target, counts):
        before = {domain for domain, replicas in count.items() if replicas}
        if len(before) > 1 and None not in before and {domain for domain in before if domain != old or count[old] > 1} <= {new}:
            return True
    return False


def _deletion_cost(pod: Pod) -> int:
    """Return the pod deletion cost from the annotation.

    A value that is not a number counts as 0 (kubernetes ``controller/controller_utils.go``).
    """
    return parse_int64((pod.metadata.annotations or {}).get(DELETION_COST, "")) or 0


def _no_capacity(feasibility: Feasibility) -> Reason:
    if feasibility.unknown:
        texts = ", ".join(reason.text for reason in feasibility.unknown)
        return Reason("unknown", f"it is unknown whether a node has free capacity for a replacement: {texts}")
    unsure = Counter(reason for reasons in feasibility.unknown_nodes.values() for reason in reasons)
    texts = ", ".join(f"{reason.text} ({pluralize(nodes, 'node')})" for reason, nodes in [*feasibility.counts(), *unsure.items()])
    return Reason(
        "unknown" if unsure else "no_capacity", f"no domain with fewer replicas is known to have free capacity for a replacement: {texts}"
    )


MAX_PLANNED = 100
"""Limit of evictions in a plan, because people read it."""


def planned_moves(
    report: WorkloadReport,
    snapshot: ClusterSnapshot,
    cluster_state: ClusterState,
    options: RestartOptions,
    first: Move,
    limits: WorkloadLimits,
) -> tuple[list[Move], t.Optional[Reason]]:
    """Return ``first`` and all moves that follow if every replacement runs on its best node.

    A run that does not wait evicts one pod of the workload, so its plan is ``first`` alone. The moves are counted in ``limits``. The second
    value is the limit that prevents another move, or None.
    """
    planner = EvictionPlanner(report, snapshot, cluster_state, options.topology_keys, by_scores=options.only_if_helps)
    moves: list[Move] = []
    move: t.Union[Move, Reason] = first
    while not isinstance(move, Reason):
        moves.append(move)
        limits.add(move.pod)
        planner.assume(move)
        if len(moves) == MAX_PLANNED or not options.wait:
            return moves, None
        move = planner.next_allowed_move(limits)
    return moves, move if move.code == LIMIT_REACHED else None
