# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The spread report as plain values, in the one form that modules and reports use."""

from __future__ import annotations

import typing as t

from ...model.reason import Blocker, reason_fields
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_results
from ...model.well_known import HOSTNAME, ZONE
from ...spread.distribution import listed_by_key
from ...spread.namespace_selection import UNREADABLE
from ...spread.options import CheckOptions
from ...spread.spread_report import SpreadReport, WorkloadReport
from ...spread.verdict import COLLAPSED, HEALTHY, ROLLING, SKEWED, SKIPPED, UNKNOWN

MAX_FEASIBLE = 20
"""Limit of names in each list of ``feasible_domains``. With 100, the output took a third of the time for 1,000 workloads on 5,000 nodes."""


def check_result(report: SpreadReport, options: CheckOptions, *, include_healthy: bool) -> dict[str, t.Any]:
    """Return the result of k8s_spread_check as plain values.

    ``options`` are those of the check. Without ``include_healthy``, ``workloads`` has no healthy ones.
    """
    workload_reports = [
        workload_report for workload_report in report.workloads if include_healthy or workload_report.verdict.verdict != HEALTHY
    ]
    restartable = [workload_report for workload_report in report.workloads if workload_report.restartable]
    return {
        "nodes": {"total": report.nodes_total, "ready": report.nodes_ready, "eligible": report.nodes_eligible},
        **reason_fields(report.reason),
        "summary": {
            "namespaces": report.namespaces,
            "checked": len(report.workloads),
            "healthy": report.count(HEALTHY),
            "collapsed": report.count(COLLAPSED),
            "skewed": report.count(SKEWED),
            "rolling": report.count(ROLLING),
            "skipped": report.count(SKIPPED),
            "unknown": report.count(UNKNOWN),
            "restartable": len(restartable),
        },
        "workloads": [workload_to_result(workload_report) for workload_report in workload_reports],
        "restartable": [workload_identity(workload_report) for workload_report in restartable],
        "interrupted": [workload_identity(workload_report) for workload_report in report.workloads if workload_report.interrupted],
        "uneven": [
            workload_identity(workload_report)
            for workload_report in report.workloads
            if workload_report.verdict.verdict in (COLLAPSED, SKEWED) and not workload_report.left_out
        ],
        "skipped_namespaces": [{"namespace": name, **reason_fields(reason)} for name, reason in report.skipped_namespaces.items()],
        "skipped_objects": undecodable_results(report.undecodable),
        "options": options_to_result(options),
    }


def read_error(check: t.Mapping[str, t.Any]) -> str:
    """Return the error in the result of a check that could read none of the chosen namespaces. It is empty after any other check."""
    return str(check["message"]) if check.get("reason") == UNREADABLE else ""


def options_to_result(options: CheckOptions) -> dict[str, t.Any]:
    """Return the options of the check under the module's names. k8s_rollout_restart takes its topology keys and max_skew from there."""
    return {
        "namespaces": None if options.namespaces is None else list(options.namespaces),
        "namespace_annotation": "=".join(options.namespace_annotations[0]) if options.namespace_annotations else "",
        "exclude_namespaces": list(options.exclude_namespaces),
        "namespace_label_selectors": list(options.namespace_label_selectors),
        "label_selectors": list(options.label_selectors),
        "kinds": list(options.kinds),
        "topology_keys": list(options.topology_keys),
        "max_skew": options.max_skew,
        "min_ready_nodes": options.min_ready_nodes,
        "predict": options.predict,
        "cooldown": options.cooldown_s,
        "max_attempts": options.max_attempts,
        "scheduler_config": list(options.scheduler_config),
    }


def nodes_to_result(snapshot: ClusterSnapshot) -> list[dict[str, t.Any]]:
    """Return name, hostname and zone (empty without the label), readiness and schedulability of every node, sorted by zone and name."""
    nodes = [
        {
            "name": node.name,
            "hostname": node.labels.get(HOSTNAME, ""),
            "zone": node.labels.get(ZONE, ""),
            "ready": node.ready,
            "schedulable": not node.spec.unschedulable,
        }
        for node in snapshot.nodes.values()
    ]
    return sorted(nodes, key=lambda node: (node["zone"], node["name"]))


def workload_identity(workload_report: WorkloadReport) -> dict[str, str]:
    """Return kind, namespace and name, as k8s_rollout_restart requires them."""
    metadata = workload_report.workload.metadata
    return {"kind": workload_report.workload.kind, "namespace": metadata.namespace, "name": metadata.name}


def workload_to_result(workload_report: WorkloadReport) -> dict[str, t.Any]:
    """Return one entry of ``workloads``."""
    prediction = workload_report.prediction
    blockers = list(prediction.blockers) if prediction else []
    if workload_report.refusal is not None and workload_report.refusal.code not in {blocker.reason.code for blocker in blockers}:
        blockers.append(Blocker(workload_report.refusal))
    return {
        **workload_identity(workload_report),
        "uid": workload_report.workload.metadata.uid,
        "replicas": workload_report.workload.spec.replicas,
        "placed": workload_report.placed,
        "domains": listed_by_key(workload_report.distributions),
        "eligible_domains": {distribution.topology_key: len(distribution.domains) for distribution in workload_report.distributions},
        "verdict": workload_report.verdict.verdict,
        **reason_fields(workload_report.verdict.reason),
        "restart_helps": prediction.restart_helps if prediction else None,
        "awaits_ends": prediction.awaits_ends if prediction else False,
        "feasible_domains": {key: names[:MAX_FEASIBLE] for key, names in prediction.feasible_domains.items()} if prediction else {},
        "expected": prediction.expected if prediction else {},
        "blockers": [blocker.fields() for blocker in blockers],
        "advice": [advice.fields() for advice in workload_report.advice],
    }
