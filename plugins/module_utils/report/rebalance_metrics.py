# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Prometheus metrics of a rebalancing run, made of the results of the modules. Pure.

The program serves and pushes them. The playbook and the program write them as text for node_exporter's textfile collector.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ..spread.restart.actions import FAILED_ACTION
from ..spread.verdict import COLLAPSED, HEALTHY, ROLLING, SKEWED, SKIPPED, UNKNOWN

PREFIX = "kube_scheduling_rebalance_"
VERDICTS = (HEALTHY, COLLAPSED, SKEWED, ROLLING, SKIPPED, UNKNOWN)

Json = Mapping[str, t.Any]


class RunGauge(t.NamedTuple):
    """A metric: its name, its description, and its values by the value of its only label. Without a label the key is empty."""

    name: str
    description: str
    label: str
    values: dict[str, float]


def rebalance_gauges(
    before: t.Optional[Json], *, after: t.Optional[Json] = None, restart: t.Optional[Json] = None, error: str = "", now_s: float
) -> list[RunGauge]:
    """Return the metrics of a run that ended at ``now_s``, in seconds since the epoch.

    ``before`` and ``after``: results of k8s_spread_check. ``restart``: the result of k8s_rollout_restart. Each may be missing. Without any
    result of a check, there is no number of workloads. ``error``: the error of the run, or empty.
    """
    summary = (after or {}).get("summary") or (before or {}).get("summary") or {}
    failed = sum(entry["action"] == FAILED_ACTION for entry in (restart or {}).get("workloads") or ())
    gauges = [
        RunGauge(f"{PREFIX}last_run_timestamp_seconds", "The end of the last run, in seconds since 1970.", "", {"": now_s}),
        RunGauge(
            f"{PREFIX}failed",
            "Workloads whose restart or eviction failed in the last run. At least 1 if the run ended with an error.",
            "",
            {"": max(failed, int(bool(error)))},
        ),
    ]
    if summary:
        values = {verdict: float(summary.get(verdict, 0)) for verdict in VERDICTS}
        description = "Workloads at the end of the last run, by the verdict of the check."
        gauges.append(RunGauge(f"{PREFIX}workloads", description, "verdict", values))
    return gauges


def metrics_text(gauges: Iterable[RunGauge]) -> str:
    """Return the gauges in the text format of Prometheus."""
    return "".join(line for gauge in gauges for line in _lines(gauge))


def _lines(gauge: RunGauge) -> Iterable[str]:
    # The values and the descriptions are made here, so they have no character that needs an escape.
    yield f"# HELP {gauge.name} {gauge.description}\n"
    yield f"# TYPE {gauge.name} gauge\n"
    for value, number in gauge.values.items():
        label = f'{{{gauge.label}="{value}"}}' if gauge.label else ""
        yield f"{gauge.name}{label} {float(number)!r}\n"
