# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads the values of a node that are fresh enough, says why there is none, and corrects means for pods that are new or have ended."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterable

from ..interface import Annotation, NodeView, PodView, Query, Series


class Reading(t.NamedTuple):
    """A value and the time when it was measured; ``value`` is None if there is none, and ``problem`` says why.

    ``measured_at_s`` is None if nothing tells when the value was measured. Such a value counts as fresh.
    """

    value: float | None
    measured_at_s: float | None = None
    problem: str = ""


def read_value(node: NodeView, query: Query, now_s: float, max_age_s: float) -> Reading:
    """Return the only value of a query on a node. A query with several series per node gives none, because they cannot be combined."""
    found = [one for one in node.series.get(query, ()) if math.isfinite(one.value)]
    if not found:
        return Reading(None, problem=f"no value of {name_of(query)} is known")
    if len(found) > 1:
        return Reading(None, problem=f"{len(found)} series belong to this node; aggregate them in the query")
    value, measured_at_s = found[0].value, found[0].measured_at_s
    problem = age_violation(name_of(query), measured_at_s, now_s, max_age_s)
    return Reading(None, measured_at_s, problem) if problem else Reading(value, measured_at_s)


def name_of(query: Query) -> str:
    """Return the name of what a query reads, for people: a metric, a PromQL expression or an annotation."""
    return f"the annotation {query.key}" if isinstance(query, Annotation) else query[0]


def age_violation(name: str, measured_at_s: float | None, now_s: float, max_age_s: float) -> str:
    """Return the reason why a value of this time is too old, or an empty text. ``name``: what was measured."""
    if measured_at_s is None or now_s - measured_at_s <= max_age_s:
        return ""
    return f"the newest value of {name} is {now_s - measured_at_s:.0f} s old, and max_age_s is {max_age_s:.0f} s"


def oldest(times_s: Iterable[float | None]) -> float | None:
    """Return the earliest time; None if no time is known."""
    return min((time_s for time_s in times_s if time_s is not None), default=None)


def newest_by_label(series: Iterable[Series], label: str) -> dict[str, Series]:
    """Return the newest finite series for each value of a label.

    Two jobs of Prometheus can scrape the same exporter. Then each device has two series, and only one of them counts.
    """
    found: dict[str, Series] = {}
    for one in series:
        name = one.labels.get(label, "")
        if not math.isfinite(one.value):
            continue
        before = found.get(name)
        if before is None or _order(one) > _order(before):
            found[name] = one
    return found


def _order(series: Series) -> tuple[float, float]:
    return (-math.inf if series.measured_at_s is None else series.measured_at_s, series.value)


def unmeasured_share(pod: PodView, measured_at_s: float, window_s: float) -> float:
    """Return the difference between the present and the measured load of a pod, in parts of the pod's whole load.

    1: bound after the measurement. 0: the pod has run for the whole window. −1: it ran for the whole window and has ended since.

    A mean over a window shows a pod in proportion to the time that the pod has run in the window. After a binding the mean needs a whole
    window to show all of the pod. Without a correction the scheduler would send pod after pod to a node that only seems to be idle.

    A pod that has ended only makes the correction for new pods smaller. The corrected load is never below the measured one. The part of a
    pod in the measured load is not known, and an idle pod that declared much would hide the load of the others. The measured load falls
    within a window.
    """
    if pod.bound_at_s is None:
        return 0.0
    ended_at_s = measured_at_s if pod.ended_at_s is None else min(pod.ended_at_s, measured_at_s)
    measured_s = max(0.0, ended_at_s - max(pod.bound_at_s, measured_at_s - window_s))
    return (1.0 if pod.ended_at_s is None else 0.0) - measured_s / window_s
