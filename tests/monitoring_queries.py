# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The alerts and the Grafana dashboards in deploy/monitoring: their queries, and the metrics and labels that these use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import yaml

from tools.rendered_base import ALERTS, BASE

Json = dict[str, Any]

DASHBOARDS = sorted((BASE / "monitoring").glob("*.json"))
RULES: list[Json] = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
VARIABLES = {"$__rate_interval": "5m", "$profile": ".*"}
"""The variables of Grafana, with the values that the tests use."""
FOREIGN = {
    "kube_cronjob_next_schedule_time": {"namespace", "cronjob"},
    "kube_cronjob_spec_suspend": {"namespace", "cronjob"},
    "kube_cronjob_status_active": {"namespace", "cronjob"},
}
"""Metrics that no program of the lab has, with their labels.

They are those of kube-state-metrics (docs/metrics/workload/cronjob-metrics.md and internal/store/cronjob.go there), which no registry of
packages has as a program. A suspended CronJob has no next schedule time there.
"""
OPTIONAL_LABELS = {"le", "cluster"}
"""``le`` is the label of each histogram. ``cluster`` exists only where one Prometheus has the metrics of several clusters."""


class Query(NamedTuple):
    """An expression, and where it is: the name of the alert, or the file and the title of the panel."""

    place: str
    expression: str


def load(file: Path) -> Json:
    dashboard: Json = json.loads(file.read_text(encoding="utf-8"))
    return dashboard


def panel_queries(file: Path) -> list[Query]:
    """Return the queries of a dashboard as Grafana sends them."""
    found = []
    for panel in load(file)["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            found.append(Query(f"{file.name}: {panel['title']}", text))
    return found


def alert_queries() -> list[Query]:
    return [Query(rule["alert"], rule["expr"]) for rule in RULES]


def metrics_of(expression: str) -> list[tuple[str, set[str]]]:
    """Return each metric with the labels by which the expression selects and groups its series, without the optional ones."""
    return list(_metrics(promql_parser.parse(expression), frozenset()))


def _metrics(node: Any, grouped: frozenset[str]) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, promql_parser.VectorSelector):
        matched = {matcher.name for matcher in node.matchers.matchers}
        yield node.name, {*matched, *grouped} - OPTIONAL_LABELS
    elif isinstance(node, promql_parser.MatrixSelector):
        yield from _metrics(node.vector_selector, grouped)
    elif isinstance(node, promql_parser.AggregateExpr):
        modifier = node.modifier
        by = frozenset(modifier.labels) if modifier is not None and "By" in str(modifier.type) else frozenset()
        yield from _metrics(node.expr, by or grouped)
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from _metrics(node.lhs, grouped)
        yield from _metrics(node.rhs, grouped)
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from _metrics(argument, grouped)
    elif isinstance(node, (promql_parser.ParenExpr, promql_parser.UnaryExpr, promql_parser.SubqueryExpr)):
        yield from _metrics(node.expr, grouped)
