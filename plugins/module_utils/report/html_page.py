# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The report as plain values for an HTML template.

All counting and sorting is done here, and the template only writes the values. The template must escape texts.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..model.reason import reason_fields
from .columns import DOMAINS, NODES, ZONES, Grid, busiest_domains, choose_grid
from .rows import Report, Row, WorkloadObservation

MAX_COLUMNS = 32
FEW_COLUMNS = 8
SHORT_LABEL = 4
BUSIEST = 10
HEAT_STEPS = 4
UNITS = {NODES: "node", ZONES: "zone"}


def build_page(report: Report, *, max_columns: int = MAX_COLUMNS) -> dict[str, t.Any]:
    """Return plain values: ``totals``, ``groups``, ``columns``, ``sections`` of rows, ``sums``, and values for the rest of the page."""
    grid = choose_grid(report, max_columns=max(2, max_columns))
    labels, left_out = grid.short_labels() if len(grid.columns) > FEW_COLUMNS else (grid.labels(), "")
    before, after = report.replicas
    busy = [row for row in report.rows if not row.unremarkable]
    unremarkable = [row for row in report.rows if row.unremarkable]
    return {
        "cluster": report.cluster,
        "plan": report.plan,
        "error": report.error,
        "reason": report.reason,
        "message": report.message,
        "totals": report.totals,
        "namespaces": report.summary.get("namespaces", 0),
        "healthy": report.summary.get("healthy", 0),
        "nodes": report.node_counts,
        "topology_key": report.topology_key,
        "unit": UNITS.get(grid.unit, report.topology_key),
        "seen_twice": report.seen_twice,
        "lost_nodes": list(report.lost_nodes),
        "groups": [{"name": name, "columns": size} for name, size in grid.groups()],
        "columns": [{"label": label, "name": column.label, "note": column.note} for label, column in zip(labels, grid.columns)],
        "upright": len(labels) > FEW_COLUMNS and max(map(len, labels)) > SHORT_LABEL,
        "left_out": left_out,
        "fullest_column": not grid.shows_every_node,
        "sections": [
            {"name": name, "rows": [_row(row, grid) for row in rows]} for name, rows in (("busy", busy), ("quiet", unremarkable)) if rows
        ],
        "sums": _sums(grid, before, after if report.seen_twice else None),
        "busiest": [] if grid.unit == DOMAINS or grid.shows_every_node else _busiest(report),
        "skipped_namespaces": [{"name": ", ".join(names), **reason_fields(reason)} for reason, names in report.skipped_by_reason],
        "skipped_objects": [{"name": name, "message": message} for name, message in sorted(report.skipped_objects.items())],
    }


def _row(row: Row, grid: Grid) -> dict[str, t.Any]:
    observations = [{"when": "before", **_observation(row.before, grid)}]
    if row.after is not None and (row.outcome or row.after != row.before):
        observations.append({"when": "after", **_observation(row.after, grid)})
    return {
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "replicas": row.replicas,
        "observations": observations,
        "action": row.action,
        "outcome": row.outcome,
        "reason": row.reason,
        "message": row.message,
        "duration": row.duration_s if row.outcome else 0,
        "evicted": row.evicted,
        "advice": [reason_fields(advice) for advice in row.advice],
    }


def _observation(observation: WorkloadObservation, grid: Grid) -> dict[str, t.Any]:
    placed = sum(observation.counts.values())
    return {
        "verdict": observation.verdict,
        "reason": observation.reason,
        "message": observation.message,
        "fullest": observation.fullest,
        "cells": [{"count": count, "heat": _heat(count or 0, placed)} for count in grid.counts(observation.counts)],
    }


def _heat(count: int, placed: int) -> int:
    """Return 0 for no replicas, up to HEAT_STEPS for all replicas."""
    return -(-count * HEAT_STEPS // placed) if placed else 0


def _sums(grid: Grid, before: t.Any, after: t.Any) -> list[dict[str, int]]:
    first = grid.counts(before)
    second: Sequence[t.Optional[int]] = first if after is None else grid.counts(after)
    return [{"before": then or 0, "after": now or 0} for then, now in zip(first, second)]


def _busiest(report: Report) -> list[dict[str, t.Any]]:
    return [{"name": name, "before": before, "after": after} for name, before, after in busiest_domains(report, limit=BUSIEST)]
