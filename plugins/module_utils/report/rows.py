# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rows of a report on a rebalance run: one row for each workload, made of the results of the modules. Pure.

The results of k8s_spread_check and k8s_rollout_restart are plain values. They are converted to types here, once.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..model.cluster_identity import ClusterIdentity
from ..model.messages import combine_permission_messages, missing_permission, pluralize
from ..model.reason import Advice, Reason
from ..model.well_known import HOSTNAME
from ..spread.restart.actions import EVICTED, FAILED_ACTION, PLANNED, REFUSED, RESTARTED
from ..spread.restart.no_gain import NO_GAIN, UNKNOWN_GAIN
from ..spread.verdict import COLLAPSED, HEALTHY, SKEWED, SKIPPED
from ..state.restart_outcome import IMPROVED

# The actions of the report in addition to those of k8s_rollout_restart, for workloads that only the check lists:
RESTART_HELPS = "a restart helps"
STAYS = "stays"
# Verdicts of the report in addition to those of k8s_spread_check, for workloads that only one of the two checks lists:
NEW = "new"
GONE = "gone"
NOT_LISTED = "not listed"

EXPECTED = "~"
"""The mark of numbers that are expected, and not observed."""

_NOT_MADE = (*PLANNED, RESTART_HELPS)
_RANK = {FAILED_ACTION: 0, **dict.fromkeys((RESTARTED, EVICTED, *_NOT_MADE), 1), REFUSED: 2, STAYS: 3}
_RANK_OF_VERDICT = {COLLAPSED: 4, SKEWED: 4, SKIPPED: 6, HEALTHY: 7}
_RANK_OTHERS = 5

Counts = dict[str, int]
Key = tuple[str, str, str]


class ReportError(ValueError):
    """An argument is not a result of the modules."""


@dataclass(frozen=True)
class NodeColumn:
    """A node as a domain of replicas. ``name`` is the host name, by which replicas are counted. ``zone`` is empty if it has none."""

    name: str
    zone: str = ""
    ready: bool = True
    schedulable: bool = True


@dataclass(frozen=True)
class WorkloadObservation:
    """A workload at one time. ``counts``: replicas by domain. 0 means that the workload can use the domain, absent that it cannot.

    ``reason`` is the code of the verdict's reason, ``message`` its text. ``all_listed`` is false if the result of the check omits domains
    without replicas, because there are very many. Then a domain that is absent counts as one that the workload can use.
    """

    counts: Counts
    verdict: str = ""
    reason: str = ""
    message: str = ""
    all_listed: bool = True

    @property
    def fullest(self) -> int:
        """Return the number of replicas in the domain with most replicas."""
        return max(self.counts.values(), default=0)


@dataclass(frozen=True)
class Row:
    """A workload before and after the run. ``after`` is None without a second observation.

    ``action`` is an action of k8s_rollout_restart or of the report, or empty if there is nothing to do. ``reason`` (a code) and ``message``
    (a text) are its reason. ``evicted`` is the number of its pods that were evicted, or in a plan would be evicted. ``expected``: the
    replicas by domain after an action that is not made yet, as simulations have them, if there is no newer observation.
    """

    kind: str
    namespace: str
    name: str
    replicas: int
    before: WorkloadObservation
    after: t.Optional[WorkloadObservation]
    action: str = ""
    outcome: str = ""
    reason: str = ""
    message: str = ""
    duration_s: int = 0
    evicted: int = 0
    advice: tuple[Advice, ...] = ()
    expected: Counts = field(default_factory=dict)

    @property
    def later(self) -> WorkloadObservation:
        """Return the expected replicas, or else the newer observation."""
        return WorkloadObservation(self.expected, all_listed=self.before.all_listed) if self.expected else self.last

    @property
    def mark(self) -> str:
        """Return the mark of the later replicas."""
        return EXPECTED if self.expected else ""

    @property
    def last(self) -> WorkloadObservation:
        """Return the newer observation."""
        return self.before if self.after is None else self.after

    @property
    def unremarkable(self) -> bool:
        """Return whether the workload was healthy or skipped in all observations and has no action."""
        return not self.action and {self.before.verdict, self.last.verdict} <= {HEALTHY, SKIPPED}

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Return the sort key. Rows with actions and problems are first."""
        verdicts = (self.before.verdict, self.last.verdict)
        rank = _RANK.get(self.action, min(_RANK_OF_VERDICT.get(verdict, _RANK_OTHERS) for verdict in verdicts))
        return (rank, self.namespace, self.name, self.kind)


@dataclass(frozen=True)
class Report:
    """The whole run. ``topology_key`` is the key of the counts. ``error``, ``reason`` and ``message`` are empty if there was no problem."""

    cluster: ClusterIdentity
    plan: bool
    topology_key: str
    rows: tuple[Row, ...]
    nodes: tuple[NodeColumn, ...]
    node_counts: Counts
    summary: Counts
    totals: dict[str, t.Any]
    reason: str = ""
    message: str = ""
    error: str = ""
    skipped_namespaces: dict[str, Reason] = field(default_factory=dict)
    skipped_objects: dict[str, str] = field(default_factory=dict)
    lost_nodes: tuple[str, ...] = ()
    """Nodes that were ready in the first check, and in the second are not ready or do not exist."""
    checks_only: bool = False
    """True if there is no result of a restart and no plan, so that the report is about one check."""

    @property
    def skipped_by_reason(self) -> list[tuple[Reason, list[str]]]:
        """Return the reasons why namespaces were skipped, each with the names of the namespaces."""
        found = by_message((reason.text, name) for name, reason in sorted(self.skipped_namespaces.items()))
        return [(Reason(self.skipped_namespaces[names[0]].code, message), names) for message, names in found]

    @property
    def seen_twice(self) -> bool:
        """Return whether there is an observation after the run."""
        return any(row.after is not None for row in self.rows)

    @property
    def has_expected(self) -> bool:
        """Return whether there are expected replicas."""
        return any(row.expected for row in self.rows)

    @cached_property
    def replicas(self) -> tuple[Counter[str], Counter[str]]:
        """Return the replicas of all listed workloads by domain, before and after, with the expected ones of actions not made yet.

        A domain with 0 can be used by at least one of them.
        """
        before: Counter[str] = Counter()
        after: Counter[str] = Counter()
        for row in self.rows:
            before.update(row.before.counts)
            after.update(row.later.counts)
        return before, after


def build_report(before: t.Any, *, after: t.Any = None, restart: t.Any = None, plan: bool = False, error: str = "") -> Report:
    """Return the report from the results of the modules.

    ``before`` and ``after``: results of k8s_spread_check. ``restart``: the result of k8s_rollout_restart. Any of them may be missing, or be
    the result of a skipped or failed task. Raises ReportError if one of them is not a mapping.
    """
    first, second, done = _result(before, "before"), _result(after, "after"), _result(restart, "restart")
    second = second if "workloads" in second else {}
    key = _topology_key(first)
    actions = {_key(entry): entry for entry in done.get("workloads") or ()}
    later = {_key(entry): entry for entry in second.get("workloads") or ()}
    restartable = {_key(entry) for entry in first.get("restartable") or ()}
    reader = _RowReader(key, plan=plan, first=first, second=second)
    rows = [
        reader.read(entry, later.pop(_key(entry), None), actions.get(_key(entry)), restartable=_key(entry) in restartable)
        for entry in first.get("workloads") or ()
    ]
    rows.extend(reader.read_new(entry) for entry in later.values())
    cluster = ClusterIdentity.in_result({**done, **first})
    return Report(
        cluster=cluster,
        plan=plan,
        topology_key=key,
        rows=tuple(sorted(rows, key=lambda row: row.order)),
        nodes=tuple(_nodes(first, second)),
        node_counts=dict(first.get("nodes") or {}),
        summary=dict(first.get("summary") or {}),
        totals=_totals(first, second, actions.values(), cluster, plan=plan, error=error),
        reason=str(first.get("reason") or ""),
        message=str(first.get("message") or ""),
        error=error,
        skipped_namespaces={entry["namespace"]: _reason(entry) for entry in first.get("skipped_namespaces") or ()},
        skipped_objects={name: text for result in (first, second, done) for name, text in skipped_objects(result).items()},
        lost_nodes=_lost_nodes(first, second),
        checks_only=not done and not plan,
    )


def by_message(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return each text once, with its names. Texts about the same missing role are combined, although each names its own object."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for text, name in pairs:
        texts, names = found.setdefault(missing_permission(text) or text, ([], []))
        texts.append(text)
        names.append(name)
    return [(combine_permission_messages(texts), names) for texts, names in found.values()]


def skipped_objects(result: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the messages about the objects that a module could not decode, by kind, namespace and name."""
    found = {}
    for entry in result.get("skipped_objects") or ():
        path = "/".join(part for part in (entry["namespace"], entry["name"]) if part)
        found[f"{entry['kind']} {path}".strip()] = str(entry["message"])
    return found


def _reason(entry: Mapping[str, t.Any]) -> Reason:
    return Reason(str(entry["reason"]), str(entry["message"]))


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sort key that sorts worker-2 before worker-10."""
    return tuple((bool(text), int(digits or 0), text) for text, digits in re.findall(r"(\D+)|(\d+)", name))


def _result(value: t.Any, name: str) -> Mapping[str, t.Any]:
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise ReportError(f"{name} must be the registered result of a module, not {type(value).__name__}")
    return value


def _key(entry: Mapping[str, t.Any]) -> Key:
    return entry["kind"], entry["namespace"], entry["name"]


def _topology_key(result: Mapping[str, t.Any]) -> str:
    """Return the topology key for the columns: the host name if it was checked, otherwise the key listed first."""
    for entry in result.get("workloads") or ():
        keys = list(entry["domains"])
        if keys:
            return HOSTNAME if HOSTNAME in keys else str(keys[0])
    return HOSTNAME


def _nodes(first: Mapping[str, t.Any], second: Mapping[str, t.Any]) -> list[NodeColumn]:
    """Return the nodes of both checks in the state of the second. A node that no longer exists is not ready."""
    later = {entry["name"]: entry for entry in second.get("node_list") or ()}
    entries = {entry["name"]: {**entry, "ready": entry.get("ready", True) and not later} for entry in first.get("node_list") or ()}
    found = [
        NodeColumn(entry["hostname"], entry.get("zone") or "", entry.get("ready", True), entry.get("schedulable", True))
        for entry in {**entries, **later}.values()
        if entry.get("hostname")
    ]
    return sorted(found, key=lambda node: (natural(node.zone), natural(node.name)))


def _lost_nodes(first: Mapping[str, t.Any], second: Mapping[str, t.Any]) -> tuple[str, ...]:
    before, after = ({entry["name"] for entry in check.get("node_list") or () if entry.get("ready", True)} for check in (first, second))
    return tuple(sorted(before - after, key=natural)) if second.get("node_list") else ()


def _lists_all_healthy(check: Mapping[str, t.Any]) -> bool:
    """Return whether the result of a check lists all healthy workloads that it counts."""
    listed = sum(entry["verdict"] == HEALTHY for entry in check.get("workloads") or ())
    return bool((check.get("summary") or {}).get(HEALTHY, 0) <= listed)


class _RowReader:
    """Makes rows of the entries of the results."""

    def __init__(self, topology_key: str, *, plan: bool, first: Mapping[str, t.Any], second: Mapping[str, t.Any]) -> None:
        self._topology_key = topology_key
        self._plan = plan
        self._checked_again = bool(second)
        self._healthy_left_out_before = not _lists_all_healthy(first)
        self._healthy_left_out = not _lists_all_healthy(second)

    def read(
        self,
        entry: Mapping[str, t.Any],
        later: t.Optional[Mapping[str, t.Any]],
        restart_entry: t.Optional[Mapping[str, t.Any]],
        *,
        restartable: bool,
    ) -> Row:
        """Return the row of a workload that the first check lists, with its action and its second observation."""
        before, after = self._observation(entry), None
        if later is not None:
            after = self._observation(later)
        elif self._checked_again:
            after = self._not_listed(restart_entry)
        elif restart_entry and restart_entry.get("after"):
            after = WorkloadObservation(dict(restart_entry["after"].get(self._topology_key) or {}))
        action, reason = self._action(entry, before, restart_entry, restartable=restartable)
        return Row(
            *_key(entry),
            replicas=entry["replicas"],
            before=before,
            after=after,
            action=action,
            outcome=(restart_entry or {}).get("outcome") or "" if not self._plan else "",
            reason=reason.code,
            message=reason.text,
            duration_s=int((restart_entry or {}).get("duration") or 0),
            evicted=len((restart_entry or {}).get("evicted") or ()),
            expected=self._expected(entry, restart_entry) if action in _NOT_MADE and after is None else {},
            advice=tuple(Advice(_reason(advice), advice.get("patch") or {}) for advice in entry.get("advice") or ()),
        )

    def _expected(self, entry: Mapping[str, t.Any], restart_entry: t.Optional[Mapping[str, t.Any]]) -> Counts:
        found = entry if restart_entry is None else restart_entry
        return dict((found.get("expected") or {}).get(self._topology_key) or {})

    def _not_listed(self, restart_entry: t.Optional[Mapping[str, t.Any]]) -> WorkloadObservation:
        """Return the second observation of a workload that the second check does not list.

        If that check omits healthy workloads, the replicas are those in the result of the restart.
        """
        if not self._healthy_left_out:
            return WorkloadObservation({}, GONE, GONE, "the workload does not exist any more")
        counts = ((restart_entry or {}).get("after") or {}).get(self._topology_key)
        if counts:
            return WorkloadObservation(dict(counts), verdict=HEALTHY)
        return WorkloadObservation({}, NOT_LISTED, "not_listed", "healthy now, or deleted; healthy workloads are not listed")

    def read_new(self, entry: Mapping[str, t.Any]) -> Row:
        """Return the row of a workload that only the second check lists."""
        before = WorkloadObservation({}, verdict=NOT_LISTED if self._healthy_left_out_before else NEW)
        return Row(*_key(entry), replicas=entry["replicas"], before=before, after=self._observation(entry))

    def _observation(self, entry: Mapping[str, t.Any]) -> WorkloadObservation:
        counts = dict(entry["domains"].get(self._topology_key) or {})
        eligible = (entry.get("eligible_domains") or {}).get(self._topology_key, 0)
        verdict, reason, message = (str(entry[name]) for name in ("verdict", "reason", "message"))
        return WorkloadObservation(counts, verdict, reason, message, all_listed=eligible <= len(counts))

    def _action(
        self, entry: Mapping[str, t.Any], before: WorkloadObservation, restart_entry: t.Optional[Mapping[str, t.Any]], *, restartable: bool
    ) -> tuple[str, Reason]:
        if restart_entry is not None:
            return str(restart_entry["action"]), _reason(restart_entry)
        if restartable:
            return RESTART_HELPS, Reason(before.reason, before.message)
        if before.verdict in (COLLAPSED, SKEWED):
            return STAYS, Reason("", _blockers(entry))
        return "", Reason("") if before.verdict == HEALTHY else Reason(before.reason, before.message)


def _blockers(entry: Mapping[str, t.Any]) -> str:
    """Return the reasons why a collapsed or skewed workload is not restarted."""
    texts = []
    for blocker in entry.get("blockers") or ():
        text, nodes = blocker["message"], blocker.get("nodes") or 0
        texts.append(f"{text} ({pluralize(nodes, 'node')})" if nodes else text)
    known = "; ".join(texts)
    if entry.get("restart_helps") is not None:
        return known or NO_GAIN
    return f"{UNKNOWN_GAIN}: {known}" if known else UNKNOWN_GAIN


def _totals(
    first: Mapping[str, t.Any],
    second: Mapping[str, t.Any],
    actions: t.Iterable[Mapping[str, t.Any]],
    cluster: ClusterIdentity,
    *,
    plan: bool,
    error: str,
) -> dict[str, t.Any]:
    """Return the main numbers of a run, for job schedulers and people. Without a second check the numbers after are those before."""
    summary = first.get("summary") or {}
    later = second.get("summary") or summary
    done: Sequence[Mapping[str, t.Any]] = list(actions)
    by_action = {name: sum(entry["action"] == name for entry in done) for name in (RESTARTED, SKIPPED, REFUSED, FAILED_ACTION, *PLANNED)}
    # This includes workloads that failed after an eviction.
    by_action[EVICTED] = sum(entry["action"] == EVICTED or (bool(entry.get("evicted")) and not plan) for entry in done)
    return {
        "ok": not error and not by_action[FAILED_ACTION],
        "plan": plan,
        "cluster": cluster.fields(),
        "checked": summary.get("checked", 0),
        "collapsed_before": summary.get(COLLAPSED, 0),
        "collapsed_after": later.get(COLLAPSED, 0),
        "skewed_before": summary.get(SKEWED, 0),
        "skewed_after": later.get(SKEWED, 0),
        "restartable": summary.get("restartable", 0),
        **by_action,
        "improved": sum(entry.get("outcome") == IMPROVED for entry in done) if not plan else 0,
        "reason": str(first.get("reason") or ""),
        "message": str(first.get("message") or ""),
        "error": error,
    }
