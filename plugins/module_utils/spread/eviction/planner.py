# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The plan of evictions: the single pod whose replacement makes the workload more even.

It has no side effects. A move is useful if the sums of squared domain counts, one for each topology key, become lexicographically smaller.
The key that is listed first therefore has precedence. A move that collapses the workload over a key is not useful. Every useful move lowers
the sums, so a sequence of moves whose replacements reach their target ends. The number of collapsed keys, which comes first in a skew cost,
is not compared, because a single move rarely changes it.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ...model.api.pod import Pod
from ...model.codec import replace
from ...model.messages import listed, pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot, ordinal
from ...model.values.timestamps import read_time
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import Feasibility, FilterRunner
from ...scheduler.scores.scorer import Scorer
from ..advice.advice import SCORING_DOES_NOT_SPREAD
from ..next_pod.next_pod import next_pod
from ..prediction.draws import Draws, depends_on, terminating_copy, waits_for_end
from ..prediction.old_pods import deletion_cost
from ..prediction.scored_node import NodeUnknownError, ScoredNode
from ..restart.run_limits import WorkloadLimits
from ..spread_report import WorkloadReport
from ..topology.domain_tuples import DomainTuple, DomainTuples, TouchedTuples
from ..topology.topology import Topology
from ..verdict import SPREAD

Gain = tuple[int, ...]
"""The change of the sums of squares. A lower one is better."""

MAX_NAMED = 3
UNKNOWN_NODE = "it is unknown which node the scheduler chooses for a replacement"


class Move(t.NamedTuple):
    """The eviction of one pod.

    ``targets`` are the domains of ``topology_key`` into which the scheduler may place the replacement. ``node`` is a node in one of them.
    ``drawn`` has the node of each simulation.
    """

    pod: Pod
    topology_key: str
    source: str
    targets: tuple[str, ...]
    node: str
    reason: Reason
    drawn: tuple[str, ...] = ()

    def by_draw(self, number: int) -> Move:
        """Return the move to the node of the simulation with this number."""
        return self._replace(node=self.drawn[number % len(self.drawn)]) if self.drawn else self


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


class _Choice(t.NamedTuple):
    """A useful eviction. ``nodes``: those on which the scheduler may place the replacement. ``gain``: that of the worst of them.

    ``drawn``: the node of each simulation.
    """

    gain: Gain
    candidate: _EvictionCandidate
    nodes: tuple[str, ...]
    drawn: tuple[str, ...] = ()


class EvictionPlanner:
    """Plans the evictions of one workload from its report of the spread check, one after the other.

    ``next_move`` returns the next eviction. ``assume`` makes it in ``cluster_state``, so that a whole plan can be shown. Without
    ``by_scores``, a move is useful if the replacement can run on a better node, even if the scores of the scheduler choose another one.
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
        self._cluster_state = cluster_state
        self._keys = tuple(topology_keys)
        self._pods = snapshot.placed_pods(report.workload)
        self._topology = snapshot.once(Topology.of)
        self._domains = [self._topology.groups.domains(key) for key in self._keys]
        self._domain_tuples = self._topology.domain_tuples(self._keys, report.eligible)

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
        found: t.Optional[_Choice] = None
        no_use: t.Optional[Reason] = None
        for candidate in candidates:
            if found is not None and found.gain <= candidate.best:
                break
            without = self._cluster_state.fork()
            without.remove(candidate.pod)
            runner = FilterRunner(self._replacement(candidate.pod), without)
            feasibility = runner.feasibility(self._domain_tuples.names)
            open_nodes = self._open_nodes(candidate, feasibility)
            if feasibility.unknown or open_nodes is None:
                rejected = rejected or (candidate, feasibility)
            elif found is None or open_nodes.gain < found.gain:
                choice = self._choice_by_scores(candidate, without, runner, feasibility, counts) if self._by_scores else open_nodes
                if isinstance(choice, Reason):
                    no_use = no_use or choice
                elif found is None or choice.gain < found.gain:
                    found = choice
        if found is not None:
            return self._move(found, counts)
        if no_use is not None:
            return no_use
        if rejected is None:
            raise AssertionError("unreachable")  # the first candidate sets found, no_use or rejected
        return _no_capacity(_among(*rejected))

    def _open_nodes(self, candidate: _EvictionCandidate, feasibility: Feasibility) -> t.Optional[_Choice]:
        """Return the best target with capacity, and all that are better for the same topology key. None if no target has capacity."""
        feasible, targets = set(feasibility.feasible), candidate.target_nodes
        gain = next((gain for gain in targets.gains if not feasible.isdisjoint(targets.nodes(gain))), None)
        if gain is None:
            return None
        upper = (0,) * (_first_change(gain) + 1)  # this excludes gains that are worse for a key listed before or no better for this key
        gains = [one for one in targets.gains if one[: len(upper)] < upper]
        return _Choice(gain, candidate, tuple(name for one in gains for name in targets.nodes(one) if name in feasible))

    def _choice_by_scores(
        self,
        candidate: _EvictionCandidate,
        without: ClusterState,
        runner: FilterRunner,
        feasibility: Feasibility,
        counts: Sequence[Counter[t.Optional[str]]],
    ) -> t.Union[_Choice, Reason]:
        """Return the nodes that the scheduler chooses for the replacement, or the reason why that may be of no use.

        It is of use if the move is useful in each of several simulations with other choices of the scheduler. ``without``: the cluster
        state without the pod, on which ``runner`` runs the filters for the replacement. ``feasibility``: their results.
        """
        pod, replacement = candidate.pod, self._replacement(candidate.pod)
        eligible = self._topology.as_set(self._domain_tuples.eligible)
        scorer = Scorer(replacement, without)
        alone = ScoredNode(replacement, without, runner, scorer, eligible)
        beside: t.Optional[ScoredNode] = None
        if not waits_for_end(self._workload) and pod.spec.node_name in self._snapshot.nodes:
            terminating = without.fork()
            terminating.assign(terminating_copy(pod), pod.spec.node_name)
            beside = ScoredNode(replacement, terminating, runner.on_fork(terminating), scorer.on_fork(terminating), eligible)
        gains: dict[str, t.Optional[Gain]] = {}
        drawn: list[str] = []
        results: list[bool] = []
        chosen = ""
        while not self._draws.suffice(results, pods=1):
            draw = self._draws.of(self._workload, len(results))
            try:
                node = None
                if beside is not None and not draw.has_ended_at_removal(pod):
                    node = beside.find(draw, accept_unknown=draw.accepts_unknown)
                # The scheduler tries again when the pod has ended.
                node = node or alone.find(draw, accept_unknown=draw.accepts_unknown)
            except NodeUnknownError as error:
                return Reason("unknown", f"{UNKNOWN_NODE}: {', '.join(reason.text for reason in error.reasons)}")
            if node is not None and node not in gains:
                target = self._domain_tuple(node)
                gains[node] = None if None in target else _useful_gain(self._domain_tuple(pod.spec.node_name), target, counts)
            results.append(node is not None and gains[node] is not None)
            chosen = chosen or node or ""
            drawn.append(node or "")
        useful = [gain for gain in gains.values() if gain is not None]
        if all(results):
            names = tuple(name for name in self._domain_tuples.eligible if name in gains)
            return _Choice(max(useful), candidate, names, tuple(drawn))
        if not useful:
            text = f"a node has free capacity for a replacement, and the scores of the scheduler choose {chosen or 'none'}"
            return Reason(SCORING_DOES_NOT_SPREAD, text)
        if feasibility.unknown_nodes and depends_on("accepts_unknown", results):
            reasons = dict.fromkeys(reason.text for some in feasibility.unknown_nodes.values() for reason in some)
            return Reason("unknown", f"{UNKNOWN_NODE}: {', '.join(reasons)}")
        return self._draws.uncertain(self._workload, results, "simulated replacements are in a domain with fewer replicas")

    def assume(self, move: Move) -> list[str]:
        """Replace the pod by its replacement on the move's node in the cluster state. Return the nodes of all replicas."""
        pod = move.pod
        moved = replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}-moved"), spec=replace(pod.spec, node_name=move.node))
        self._cluster_state.remove(pod)
        self._cluster_state.assign(moved, move.node)
        self._pods = [moved if other is pod else other for other in self._pods]
        return [pod.spec.node_name for pod in self._pods]

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
        return (pod.ready, deletion_cost(pod), -(read_time(pod.metadata.creation_timestamp) or 0.0), pod.metadata.name)

    def _replacement(self, pod: Pod) -> Pod:
        number = ordinal(pod) if self._workload.kind == "StatefulSet" else None
        return next_pod(self._workload, self._snapshot, ordinal=number, revision=self._revision).pod

    def _move(self, choice: _Choice, counts: Sequence[Counter[t.Optional[str]]]) -> Move:
        index = _first_change(choice.gain)
        key, count = self._keys[index], counts[index]
        old = self._domain_tuple(choice.candidate.pod.spec.node_name)[index]
        domains = dict.fromkeys(self._domains[index][name] for name in choice.nodes)
        source, targets = str(old), tuple(str(domain) for domain in domains if domain != old)
        node = next(name for name in choice.nodes if self._domains[index][name] != old)
        named = listed((f"{domain} ({count[domain]})" for domain in targets), MAX_NAMED)
        text = f"{pluralize(count[source], 'replica')} in {key}={source}, one of them can move to {named}"
        return Move(choice.candidate.pod, key, source, targets, node, Reason("surplus", text), choice.drawn)


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


def _first_change(gain: Gain) -> int:
    """Return the index of the first topology key for which the move makes a difference."""
    return next(index for index, change in enumerate(gain) if change)


def _gain(source: DomainTuple, target: DomainTuple, counts: Sequence[Counter[t.Optional[str]]]) -> Gain:
    """Return the change of the sums of squares if one replica moves from ``source`` to ``target``. A negative change is better."""
    return tuple(
        0 if old == new else 2 * count[new] + 1 - (2 * count[old] - 1 if old is not None else sum(count.values()) ** 2)
        for old, new, count in zip(source, target, counts)
    )


def _collapses(source: DomainTuple, target: DomainTuple, counts: Sequence[Counter[t.Optional[str]]]) -> bool:
    """Return whether the only replica of a key that is not in the domain ``new`` moves into it."""
    return any(
        old is not None and old != new and count[old] == 1 and count.keys() == {old, new} for old, new, count in zip(source, target, counts)
    )


def _no_capacity(feasibility: Feasibility) -> Reason:
    if feasibility.unknown:
        texts = ", ".join(reason.text for reason in feasibility.unknown)
        return Reason("unknown", f"it is unknown whether a node has free capacity for a replacement: {texts}")
    unsure = Counter(reason for reasons in feasibility.unknown_nodes.values() for reason in reasons)
    texts = ", ".join(f"{reason.text} ({pluralize(nodes, 'node')})" for reason, nodes in [*feasibility.counts(), *unsure.items()])
    return Reason(
        "unknown" if unsure else "no_capacity", f"no domain with fewer replicas is known to have free capacity for a replacement: {texts}"
    )
