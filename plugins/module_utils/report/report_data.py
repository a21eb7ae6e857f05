# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The report as plain values: the JSON for programs, which is also the data of the HTML page."""

from __future__ import annotations

import typing as t

from ..model.reason import reason_fields
from .columns import shown_nodes
from .rows import Report, Row, WorkloadObservation


def report_data(report: Report, *, time: str = "") -> dict[str, t.Any]:
    """Return the report as values that JSON has.

    ``time`` is the time of the run for people. ``domain_list`` has the nodes, or the other domains, of ``shown_nodes``.
    """
    return {
        "cluster": report.cluster.fields(),
        "time": time,
        "plan": report.plan,
        "checks_only": report.checks_only,
        "error": report.error,
        "reason": report.reason,
        "message": report.message,
        "topology_key": report.topology_key,
        "seen_twice": report.seen_twice,
        "has_expected": report.has_expected,
        "nodes": report.node_counts,
        "lost_nodes": list(report.lost_nodes),
        "summary": report.summary,
        "totals": report.totals,
        "domain_list": [
            {"name": node.name, "zone": node.zone, "ready": node.ready, "schedulable": node.schedulable} for node in shown_nodes(report)
        ],
        "workloads": [_workload(row) for row in report.rows],
        "skipped_namespaces": [{"namespaces": names, **reason_fields(reason)} for reason, names in report.skipped_by_reason],
        "skipped_objects": [{"name": name, "message": message} for name, message in sorted(report.skipped_objects.items())],
    }


def _workload(row: Row) -> dict[str, t.Any]:
    return {
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "replicas": row.replicas,
        "before": _observation(row.before),
        "after": None if row.after is None else _observation(row.after),
        "expected": row.expected,
        "mark": row.mark,
        "action": row.action,
        "outcome": row.outcome,
        "reason": row.reason,
        "message": row.message,
        "duration": row.duration_s,
        "evicted": row.evicted,
        "unremarkable": row.unremarkable,
        "advice": [advice.fields() for advice in row.advice],
    }


def _observation(observation: WorkloadObservation) -> dict[str, t.Any]:
    return {
        "verdict": observation.verdict,
        "reason": observation.reason,
        "message": observation.message,
        "domains": observation.counts,
        "all_listed": observation.all_listed,
    }
