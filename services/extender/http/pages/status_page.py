# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The status page: the nodes with value, age and score, the sources, and the pods that were placed last.

The faults of changed files are at the top of all pages, in their JSON, and in the text of /readyz.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from ...engine.explanation import ProfileRows
from ...engine.recent_pods import RecentPod
from ...interface import NodeView, PodView
from ...reload_faults import Fault
from ...sources.view import ClusterView
from . import html
from .explain_page import pods_table, profile_parts

MAX_ERRORS = 20
"""Errors of one fault on a page. The JSON has all."""

PLACED_WITHIN_S = 120
MAX_PLACED = 20
MAX_UNMAPPED = 20
OF_PROFILE = (
    "The scores are those of a pod without requests: the whole part of the exact score plus an offset of the pod, here {offset:.3f}."
    " The points are for an extender with the weight 1. /explain has those of one pod."
)


def status_page(
    view: ClusterView,
    nodes: Sequence[NodeView],
    profiles: Sequence[ProfileRows],
    recent: Sequence[RecentPod],
    faults: Sequence[str] = (),
) -> bytes:
    """Return the page. ``nodes`` are the newest, with the pods that were bound since the view. ``faults``: HTML for the top."""
    parts = [*faults, *_sources(view)]
    for rows in profiles:
        parts.append(f"<h2>Profile {escape(rows.profile)}</h2>")
        if rows.has_scores:
            parts.append(html.paragraph(OF_PROFILE.format(offset=rows.offset), "dim"))
        parts += profile_parts(rows) if rows.nodes else [html.paragraph("No node is known yet.")]
    placed = _placed(nodes)
    if placed:
        parts += ["<h2>Pods that were just placed</h2>", html.table(("Pod", "Node", "Seconds ago"), placed, ("Seconds ago",))]
    if recent:
        parts += ["<h2>Pods that the scheduler asked about</h2>", pods_table(recent)]
    return html.page(f"Scheduler extender: {view.cluster.line}".rstrip(": "), parts, refresh=True)


def error_parts(view: ClusterView) -> list[str]:
    """Return the errors of the sources as HTML."""
    return [html.paragraph(f"{source}: {error}", "wrong") for source, error in view.errors.items()]


def _sources(view: ClusterView) -> Iterable[str]:
    if view.version == 0:
        yield html.paragraph("The sources have not been read yet.", "wrong")
        return
    yield html.paragraph(f"{len(view.nodes)} nodes, last refresh {time.monotonic() - view.refreshed_at_s:.0f} s ago.")
    yield from error_parts(view)
    if view.unmapped:
        yield html.paragraph(f"{view.unmapped_count} series belong to no node, or to several:")
        rows = ((escape(one.source), escape(_labels(one.labels)), escape(one.why)) for one in view.unmapped[:MAX_UNMAPPED])
        yield html.table(("Source", "Labels", "Reason"), rows)


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _placed(nodes: Sequence[NodeView]) -> list[tuple[str, str, str]]:
    """Return the cells of the pods that were bound in the last two minutes, the newest first."""
    now_s = time.monotonic()
    found: list[tuple[float, PodView, str]] = []
    for node in nodes:
        for pod in node.pods:
            if pod.bound_at_s is not None and pod.ended_at_s is None and now_s - pod.bound_at_s < PLACED_WITHIN_S:
                found.append((now_s - pod.bound_at_s, pod, node.name))
    found.sort(key=lambda entry: entry[0])
    return [(escape(f"{pod.namespace}/{pod.name}"), escape(node), f"{ago:.0f}") for ago, pod, node in found[:MAX_PLACED]]


# --- the faults of changed files ---


def fault_parts(faults: Sequence[Fault], now_s: float) -> list[str]:
    """Return the faults as HTML. ``now_s``: seconds since 1970."""
    return [_part(fault, now_s) for fault in faults]


def faults_as_json(faults: Sequence[Fault]) -> list[dict[str, t.Any]]:
    """Return the faults as plain values."""
    return [{"text": fault.text, "since": _moment(fault).isoformat(timespec="seconds"), "errors": fault.errors} for fault in faults]


def faults_text(faults: Sequence[Fault]) -> str:
    """Return the faults in one line, or an empty text."""
    return "; ".join(f"{fault.text} (since {_moment(fault):%Y-%m-%d %H:%M:%S} UTC, /status has the errors)" for fault in faults)


def _part(fault: Fault, now_s: float) -> str:
    more = len(fault.errors) - MAX_ERRORS
    errors = [*fault.errors[:MAX_ERRORS], *([f"{more} more errors"] if more > 0 else [])]
    since = f"Since {_moment(fault):%Y-%m-%d %H:%M:%S} UTC, for {_duration(now_s - fault.since_s)}."
    return html.alert(f"{fault.text[0].upper()}{fault.text[1:]}.", since, errors)


def _moment(fault: Fault) -> datetime:
    return datetime.fromtimestamp(fault.since_s, UTC)


def _duration(seconds: float) -> str:
    """Return a duration for people in its largest unit."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} seconds"
