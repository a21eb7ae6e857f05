# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The spread check: every workload in scope with its verdict, what a restart would do, and advice. Pure: a snapshot in, a report out.

What only uneven workloads need is imported when the first one is found. Ansible packs the sources, and Python compiles each one that a run
imports.
"""

from __future__ import annotations

import shlex
import typing as t
from collections.abc import Mapping, Sequence

from ..model.api.namespace import Namespace
from ..model.api.workload import Workload
from ..model.codec import Struct, field, replace
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import Undecodable
from ..model.well_known import HOSTNAME
from .distribution import COLLAPSED, HEALTHY, ROLLING, SKEWED, SKIPPED, UNKNOWN, Distribution, Topology, Verdict, judge
from .eligible import EligibleNodes
from .next_pod import next_pod
from .no_domain import NO_DOMAIN, without_domain
from .predicted import Prediction
from .remembered import (
    DEFAULT_COOLDOWN_S,
    DEFAULT_MAX_ATTEMPTS,
    interrupted_eviction,
    interrupted_restart,
    remembered_permission,
)
from .rolling import rolling

if t.TYPE_CHECKING:
    from ..scheduler.cluster_state import ClusterState
    from .prediction import RestartPredictor

SPREAD_ANNOTATION = "kube-scheduling.onprem/spread"
TOO_FEW_NODES = "too_few_ready_nodes"
NO_NAMESPACE = "no_namespace"
UNREADABLE = "unreadable"
"""The code of the reason where namespaces are chosen and none of them can be read."""


class CheckOptions(Struct, frozen=True):
    """What to look at and how to judge it; the options of k8s_spread_check.

    ``namespace_annotation`` is a (key, value) that a namespace must carry, or None for any namespace. ``cooldown_s`` and ``max_attempts``:
    what k8s_rollout_restart will be given.
    """

    namespaces: t.Optional[Sequence[str]] = None
    namespace_annotation: t.Optional[tuple[str, str]] = ("collectdeployments", "allow")
    kinds: Sequence[str] = ("Deployment", "StatefulSet")
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None
    min_ready_nodes: int = 2
    predict: bool = True
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


class WorkloadReport(Struct, frozen=True):
    """One workload's line of the report; ``interrupted``: an earlier run restarted it, or evicted from it, and has not seen the result."""

    workload: Workload
    verdict: Verdict
    placed: int = 0
    distributions: tuple[Distribution, ...] = ()
    eligible: tuple[str, ...] = ()
    eligible_hash: str = ""
    prediction: t.Optional[Prediction] = None
    advice: tuple[Reason, ...] = ()
    refusal: t.Optional[Reason] = None
    interrupted: bool = False

    @property
    def restartable(self) -> bool:
        """A restart helps and would not be refused."""
        return self.prediction is not None and self.prediction.restart_helps is True and self.refusal is None


class SpreadReport(Struct, frozen=True):
    """The whole check. ``reason`` is why nothing was judged, or None."""

    nodes_total: int
    nodes_ready: int
    nodes_eligible: int
    namespaces: int
    reason: t.Optional[Reason] = None
    workloads: tuple[WorkloadReport, ...] = ()
    skipped_namespaces: dict[str, str] = field(default_factory=dict)
    undecodable: tuple[Undecodable, ...] = ()

    def count(self, verdict: str) -> int:
        """How many workloads got this verdict."""
        return sum(report.verdict.verdict == verdict for report in self.workloads)


def check_spread(snapshot: ClusterSnapshot, options: CheckOptions) -> SpreadReport:
    """Judge every workload of the chosen namespaces and kinds."""
    chosen, skipped = choose_namespaces(snapshot, options)
    names = {namespace.metadata.name for namespace in chosen}
    workloads = [workload for workload in snapshot.workloads(options.kinds) if workload.metadata.namespace in names]
    eligible_nodes = EligibleNodes(snapshot)
    eligible = eligible_nodes.open_to_any(workloads)
    report = SpreadReport(
        nodes_total=len(snapshot.nodes),
        nodes_ready=sum(node.ready for node in snapshot.nodes.values()),
        nodes_eligible=len(eligible),
        namespaces=len(chosen),
        skipped_namespaces=skipped,
        undecodable=snapshot.undecodable,
    )
    if len(eligible) < options.min_ready_nodes:
        text = f"nodes that are ready and open to workloads: {len(eligible)}, min_ready_nodes: {options.min_ready_nodes}"
        return replace(report, reason=Reason(TOO_FEW_NODES, text))
    if not chosen:
        return replace(report, reason=_nothing_chosen(snapshot, options, skipped))
    checker = WorkloadChecker(snapshot, options, eligible_nodes)
    return replace(report, workloads=tuple(checker.check(workload) for workload in workloads))


def choose_namespaces(snapshot: ClusterSnapshot, options: CheckOptions) -> tuple[list[Namespace], dict[str, str]]:
    """The namespaces to look at, and why others are left out: those that cannot be read, and those that were asked for by name.

    A namespace without the annotation is not chosen, so that it does not matter whether it can be read.
    """
    unreadable = _unreadable(snapshot)
    chosen: list[Namespace] = []
    skipped: dict[str, str] = {}
    for name in _wanted(snapshot, options):
        namespace = snapshot.namespaces.get(name)
        if namespace is not None and not _has_annotation(namespace, options.namespace_annotation):
            if options.namespaces is not None and options.namespace_annotation is not None:
                skipped[name] = str(Reason("not_annotated", _not_annotated(namespace, *options.namespace_annotation)))
        elif name in unreadable:
            skipped[name] = unreadable[name]
        elif namespace is not None:
            chosen.append(namespace)
    return chosen, skipped


def _wanted(snapshot: ClusterSnapshot, options: CheckOptions) -> list[str]:
    """The names of the namespaces that may be chosen; without names also those whose Namespace cannot be decoded."""
    if options.namespaces is not None:
        return list(dict.fromkeys(options.namespaces))
    undecodable = {one.metadata.name for one in snapshot.undecodable_of("Namespace") if one.metadata.name}
    return sorted(undecodable.union(snapshot.namespaces))


def _unreadable(snapshot: ClusterSnapshot) -> dict[str, str]:
    """The namespaces that cannot be read, or not in full, and one reason for each."""
    reasons = {entry.namespace: entry.reason for entry in snapshot.skipped if entry.namespace}
    reasons.update({one.metadata.name: str(one.reason) for one in snapshot.undecodable_of("Namespace")})
    return reasons


def _nothing_chosen(snapshot: ClusterSnapshot, options: CheckOptions, skipped: Mapping[str, str]) -> Reason:
    unreadable = _unreadable(snapshot)
    found = [name for name, reason in skipped.items() if unreadable.get(name) == reason]
    if not found:
        return Reason(NO_NAMESPACE, _no_namespace(options))
    number = pluralize(len(found), "namespace")
    reasons = f"({found[0]}: {unreadable[found[0]]})"
    if options.namespaces is not None or options.namespace_annotation is None:
        return Reason(UNREADABLE, f"{number} {'is' if len(found) == 1 else 'are'} chosen and none can be read {reasons}")
    annotation = "=".join(options.namespace_annotation)
    verb = "has" if len(found) == 1 else "have"
    doubt = "" if all(name in snapshot.namespaces for name in found) else ", or may have it,"
    return Reason(UNREADABLE, f"{number} {verb} the annotation {annotation}{doubt} and none can be read {reasons}")


def _no_namespace(options: CheckOptions) -> str:
    if options.namespaces is not None:
        return "none of the namespaces asked for can be judged"
    if options.namespace_annotation is None:
        return "there is no namespace"
    key, value = options.namespace_annotation
    return f"no namespace has the annotation {key}={value}; choose with: kubectl annotate namespace NAME {shlex.quote(f'{key}={value}')}"


def _not_annotated(namespace: Namespace, key: str, value: str) -> str:
    present = (namespace.metadata.annotations or {}).get(key)
    command = f"{namespace.metadata.name} {shlex.quote(f'{key}={value}')}"
    if present is None:
        return f"namespace has no annotation {key}={value}; to let it take part: kubectl annotate namespace {command}"
    return f"its annotation {key} is {present!r}, not {value!r}; to let it take part: kubectl annotate --overwrite namespace {command}"


def _has_annotation(namespace: Namespace, annotation: t.Optional[tuple[str, str]]) -> bool:
    return annotation is None or (namespace.metadata.annotations or {}).get(annotation[0]) == annotation[1]


def too_few_replicas(workload: Workload) -> Reason:
    """Said of a workload with fewer than two replicas."""
    return Reason("too_few_replicas", f"it takes two to spread, this has {workload.spec.replicas}")


class WorkloadChecker:
    """Judges single workloads on one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, options: CheckOptions, eligible_nodes: t.Optional[EligibleNodes] = None) -> None:
        self._snapshot = snapshot
        self._options = options
        self._eligible_nodes = eligible_nodes or EligibleNodes(snapshot)
        self._topology = snapshot.once(Topology.of)
        self._made_predictor: t.Optional[RestartPredictor] = None

    @property
    def _predictor(self) -> RestartPredictor:
        if self._made_predictor is None:
            from .prediction import RestartPredictor

            keys, max_skew = self._options.topology_keys, self._options.max_skew
            self._made_predictor = RestartPredictor(self._snapshot, self._topology, topology_keys=keys, max_skew=max_skew)
        return self._made_predictor

    @property
    def placement(self) -> ClusterState:
        """What runs where, with the restarts that are assumed to have been made."""
        return self._predictor.placement

    def assume_restarted(self, line: WorkloadReport) -> None:
        """What is checked from now on counts with the workload's replicas where a restart would bring them."""
        self._predictor.assume_restarted(line.workload, line.eligible)

    def check(self, workload: Workload) -> WorkloadReport:
        """The workload's line: skipped and rolling ones are not judged, and only uneven ones are predicted."""
        placed = self._snapshot.placed_pods(workload)
        eligible = self._eligible_nodes.of(workload)
        homes = [pod.spec.node_name for pod in placed]
        distributions = tuple(self._topology.distribute_over(self._options.topology_keys, homes, eligible.names))
        verdict = self._verdict(workload, homes, eligible.names, distributions)
        line = WorkloadReport(workload, verdict, len(placed), distributions, eligible.names, eligible.rules_hash)
        return self._explain(replace(line, interrupted=self._is_interrupted(line)), homes)

    def _verdict(self, workload: Workload, homes: Sequence[str], eligible: Sequence[str], distributions: Sequence[Distribution]) -> Verdict:
        skipped = self._skip_reason(workload)
        if skipped is not None:
            return Verdict(SKIPPED, skipped)
        unknown = self._snapshot.undecodable_revision(workload)
        if unknown is not None:
            return Verdict(UNKNOWN, unknown.reason)
        in_progress = rolling(workload, self._snapshot)
        if in_progress is not None:
            return Verdict(ROLLING, in_progress)
        if len(homes) < 2:
            return Verdict(UNKNOWN, Reason("not_placed", f"{len(homes)} of {workload.spec.replicas} replicas are on a node"))
        verdict = judge(distributions, max_skew=self._options.max_skew)
        if verdict.verdict == UNKNOWN and not eligible:
            return Verdict(HEALTHY, Reason("single_domain", "no node is eligible"), verdict.topology_key)
        decided_by = next((one for one in distributions if one.topology_key == verdict.topology_key), None)
        if verdict.reason.code == NO_DOMAIN and decided_by is not None and decided_by.domains:
            return verdict._replace(reason=without_domain(self._snapshot, verdict.topology_key, homes))
        return verdict

    def _skip_reason(self, workload: Workload) -> t.Optional[Reason]:
        namespace = self._snapshot.namespaces.get(workload.metadata.namespace)
        for owner, metadata in (("workload", workload.metadata), ("namespace", namespace.metadata if namespace else None)):
            if metadata is not None and (metadata.annotations or {}).get(SPREAD_ANNOTATION) == "ignore":
                return Reason("ignored", f"the {owner} has the annotation {SPREAD_ANNOTATION}: ignore")
        if namespace is not None and namespace.status.phase == "Terminating":
            return Reason("namespace_terminating", f"namespace {workload.metadata.namespace} is being deleted")
        if workload.spec.replicas < 2:
            return too_few_replicas(workload)
        return None

    def _is_interrupted(self, line: WorkloadReport) -> bool:
        if line.verdict.verdict == SKIPPED:
            return False
        found = interrupted_restart(line.workload, self._snapshot) or interrupted_eviction(line.workload, self._snapshot)
        return found is not None

    def _explain(self, line: WorkloadReport, homes: Sequence[str]) -> WorkloadReport:
        if line.verdict.verdict not in (COLLAPSED, SKEWED):
            return line
        from .advice import advise
        from .pinned import pinned_by_volumes
        from .preference import outweighed_preference

        pod = next_pod(line.workload, self._snapshot).pod
        preference = outweighed_preference(pod, homes, line.eligible, self._snapshot.nodes)
        pinned = pinned_by_volumes(line.workload, self._snapshot, self.placement, line.eligible, line.verdict.topology_key)
        prediction = None
        if self._options.predict:
            prediction = self._predictor.predict(line.workload, line.eligible, line.distributions, preference=preference)
        return replace(
            line,
            prediction=prediction,
            advice=tuple(advise(line.workload, pod, topology_keys=self._options.topology_keys, preferred_home=preference, pinned=pinned)),
            refusal=self._refusal(line),
        )

    def _refusal(self, line: WorkloadReport) -> t.Optional[Reason]:
        """Why k8s_rollout_restart, with the same cooldown and attempts, would not restart it now."""
        from .guard import refusal

        forbidden = refusal(line.workload, self._snapshot, allow_downtime=False)
        if forbidden is not None:
            return forbidden
        permission = remembered_permission(
            line.workload,
            self._snapshot,
            line.eligible_hash,
            now_s=self._snapshot.read_at_s,
            cooldown_s=self._options.cooldown_s,
            max_attempts=self._options.max_attempts,
        )
        # A restart that was interrupted has not failed yet: with its attempts used up it still waits for its second look.
        if permission.used_up and interrupted_restart(line.workload, self._snapshot) is not None:
            return None
        return permission.violation
