# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Prometheus metrics of a rebalancing run, made of the results of the modules. Pure.

The program serves and pushes them. The playbook and the program write them as text for node_exporter's textfile collector.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ..spread.restart import no_gain
from ..spread.restart.actions import FAILED_ACTION, REFUSED
from ..spread.restart.actions import SKIPPED as SKIPPED_ACTION
from ..spread.verdict import COLLAPSED, HEALTHY, ROLLING, SKEWED, SKIPPED, UNKNOWN
from ..state.restart_outcome import OUTCOMES

PREFIX = "kube_scheduling_rebalance_"
VERDICTS = (HEALTHY, COLLAPSED, SKEWED, ROLLING, SKIPPED, UNKNOWN)
# Prometheus renames a label that its own labels of the target have, and `namespace` is often one of these.
WORKLOAD_LABELS = ("workload_kind", "workload_namespace", "workload_name")

Json = Mapping[str, t.Any]
LabelValues = tuple[str, ...]


class RunGauge(t.NamedTuple):
    """A metric: its name, its description, the names of its labels, and its values by the values of these labels."""

    name: str
    description: str
    labels: LabelValues
    values: Mapping[LabelValues, float]


def rebalance_gauges(
    before: t.Optional[Json],
    *,
    after: t.Optional[Json] = None,
    restart: t.Optional[Json] = None,
    plan: bool = False,
    error: str = "",
    now_s: float,
) -> list[RunGauge]:
    """Return the metrics of a run that ended at ``now_s``, in seconds since the epoch.

    ``before`` and ``after``: results of k8s_spread_check. ``restart``: the result of k8s_rollout_restart. Each may be missing. Without any
    result of a check, there is no number of workloads. ``plan``: the run has moved nothing. ``error``: the error of the run, or empty.
    """
    done: Sequence[Json] = (restart or {}).get("workloads") or ()
    failed = sum(entry["action"] == FAILED_ACTION for entry in done)
    gauges = [
        RunGauge(f"{PREFIX}last_run_timestamp_seconds", "The end of the last run, in seconds since 1970.", (), {(): now_s}),
        RunGauge(
            f"{PREFIX}failed",
            "Workloads whose restart or eviction failed in the last run. At least 1 if the run ended with an error.",
            (),
            {(): max(failed, int(bool(error)))},
        ),
    ]
    if not plan:
        outcomes: dict[LabelValues, float] = {
            (outcome,): float(sum(entry.get("outcome") == outcome for entry in done)) for outcome in OUTCOMES
        }
        gauges.append(RunGauge(f"{PREFIX}moved_workloads", "Workloads that the last run moved, by outcome.", ("outcome",), outcomes))
    is_after = bool(after and after.get("summary"))
    last = (after if is_after else before) or {}
    if last.get("summary"):
        verdicts: dict[LabelValues, float] = {(verdict,): float(last["summary"].get(verdict, 0)) for verdict in VERDICTS}
        description = "Workloads at the end of the last run, by the verdict of the check."
        gauges.append(RunGauge(f"{PREFIX}workloads", description, ("verdict",), verdicts))
        gauges.append(_uneven_workloads(last, done, is_after=is_after))
    return gauges


def _uneven_workloads(check: Json, done: Sequence[Json], *, is_after: bool) -> RunGauge:
    restartable = {_key(entry) for entry in check.get("restartable") or ()}
    actions = {_key(entry): entry for entry in done}
    values: dict[LabelValues, float] = {}
    for entry in check.get("workloads") or ():
        if entry["verdict"] not in (COLLAPSED, SKEWED):
            continue
        key = _key(entry)
        action = actions.get(key)
        if action is not None and action["action"] in (REFUSED, SKIPPED_ACTION, FAILED_ACTION):
            reason = str(action["reason"])
        elif key in restartable or (action is not None and not is_after):
            reason = ""
        else:
            reason = _refusal(entry)
        values[(*key, entry["verdict"], reason)] = 1.0
    return RunGauge(
        f"{PREFIX}uneven_workload",
        "1 for each collapsed or skewed workload at the end of the last run. The reason is empty if a run can move it now.",
        (*WORKLOAD_LABELS, "verdict", "reason"),
        values,
    )


def _refusal(entry: Json) -> str:
    """Return the code of the reason why the workload is not moved. The refusal of a restart is the last blocker that is not about nodes."""
    codes = [str(blocker["reason"]) for blocker in entry.get("blockers") or () if not blocker.get("nodes")]
    return codes[-1] if codes else no_gain.CODE


def _key(entry: Json) -> LabelValues:
    return str(entry["kind"]), str(entry["namespace"]), str(entry["name"])


def metrics_text(gauges: Iterable[RunGauge]) -> str:
    """Return the gauges in the text format of Prometheus."""
    return "".join(line for gauge in gauges for line in _lines(gauge))


def _lines(gauge: RunGauge) -> Iterable[str]:
    yield f"# HELP {gauge.name} {gauge.description}\n"
    yield f"# TYPE {gauge.name} gauge\n"
    for values, number in gauge.values.items():
        pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(gauge.labels, values))
        yield f"{gauge.name}{{{pairs}}} {float(number)!r}\n" if pairs else f"{gauge.name} {float(number)!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
