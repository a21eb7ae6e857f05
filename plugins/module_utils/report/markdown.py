# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The report as a short Markdown text for chats and tickets: the numbers, the workloads with problems, and the reasons."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Sequence

from ..model.messages import pluralize, printable
from ..model.well_known import HOSTNAME
from ..spread.restart.actions import CONDITIONAL, FAILED_ACTION, REFUSED, SKIPPED
from ..spread.verdict import HEALTHY
from .patch_text import advised_patches, patch_text
from .rows import STAYS, Report, Row, WorkloadObservation, by_message, natural
from .text_map import counts_line, names_text, row_state

MAX_REASONS = 10
MAX_PATCHES = 3
"""A patch has about 25 lines."""
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!$&])")
"""The signs that Markdown, and the chats that take it, do not show as they are."""


def render_markdown(report: Report, *, max_rows: int = 20) -> str:
    """Return the summary. At most ``max_rows`` workloads are in the table, those with actions and problems first.

    Healthy and skipped workloads without an action are only counted. Texts from the cluster are escaped.
    """
    rows = [row for row in report.rows if not row.unremarkable]
    blocks = [_head(report), _table(report, rows[:max_rows]), _left_out(report, rows[max_rows:]), *_reasons(report)]
    return "\n\n".join("\n".join(block).strip() for block in blocks if block) + "\n"


def escaped(text: str) -> str:
    """Return the text as Markdown that shows it. It is in one line, and mentions nobody."""
    return SPECIAL.sub(r"\\\1", printable(text, replacement=" ")).replace("@", "@\u200b")


def _head(report: Report) -> list[str]:
    lines = [f"### Spread of workloads{f': {escaped(report.cluster.line)}' if report.cluster.line else ''}", ""]
    if report.error:
        lines += [f"**Error:** {escaped(report.error)}", ""]
    if report.plan:
        lines += ["**Plan.** Nothing was restarted.", ""]
    if report.lost_nodes:
        lines += [f"**Not ready at the end of the run:** {escaped(names_text(report.lost_nodes))}", ""]
    if report.node_counts:
        counted = (
            pluralize(report.summary.get("checked", 0), "workload"),
            pluralize(report.summary.get("namespaces", 0), "namespace"),
            pluralize(report.node_counts.get("total", 0), "node"),
        )
        result = f"No workload was checked: {escaped(report.message)}" if report.reason else counts_line(report, separator=", ")
        lines.append(f"{counted[0]} in {counted[1]}, {counted[2]}. {result[:1].upper()}{result[1:]}.")
    return lines


def _table(report: Report, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    unit = "node" if report.topology_key == HOSTNAME else f"`{report.topology_key}`"
    lines = [f"| workload | replicas | fullest {unit} | state |", "| --- | ---: | --- | --- |"]
    for row in rows:
        name = escaped(f"{row.kind} {row.namespace}/{row.name}")
        state = escaped(row_state(row))
        lines.append(f"| {name} | {row.replicas} | {_fullest(row)} | {state} |")
    return lines


def _fullest(row: Row) -> str:
    """Return the fullest domain with its replicas, before and after, or as it is expected."""
    texts = [escaped(mark) + _fullest_of(one) for one, mark in ((row.before, ""), (row.later, row.mark)) if one.counts]
    return " → ".join(dict.fromkeys(texts))


def _fullest_of(observation: WorkloadObservation) -> str:
    names = [name for name, count in observation.counts.items() if count == observation.fullest]
    if not observation.fullest:
        return "none"
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{observation.fullest} on {escaped(min(names, key=natural))}{others}"


def _left_out(report: Report, rows: Sequence[Row]) -> list[str]:
    texts = [f"{pluralize(len(rows), 'more workload')} with problems or changes"] if rows else []
    unremarkable = sum(row.unremarkable for row in report.rows)
    healthy = max(0, report.summary.get(HEALTHY, 0) - sum(row.before.verdict == HEALTHY for row in report.rows))
    if unremarkable + healthy:
        texts.append(f"{unremarkable + healthy} healthy or skipped")
    return [f"Not listed: {', '.join(texts)}."] if texts else []


def _reasons(report: Report) -> Iterable[list[str]]:
    pairs = [(row.message, f"{row.namespace}/{row.name}") for row in report.rows if row.message and row.action in _EXPLAINED]
    yield _list("**Reasons**", by_message(pairs))
    pairs = [(advice.reason.text, f"{row.namespace}/{row.name}") for row in report.rows for advice in row.advice]
    yield _list("**Advice**", by_message(pairs))
    yield from _patches(report)
    yield _list("**Namespaces left out**", [(reason.text, names) for reason, names in report.skipped_by_reason])


def _patches(report: Report) -> Iterable[list[str]]:
    """Yield the first patches of the advice as blocks of code, and the number of the others."""
    patches = list(advised_patches(report))
    for row, advice in patches[:MAX_PATCHES]:
        title = f"**Patch of {escaped(f'{row.kind} {row.namespace}/{row.name}')}** ({escaped(advice.reason.code)})"
        yield [title, "", "```json", patch_text(advice.patch), "```"]
    if len(patches) > MAX_PATCHES:
        yield [f"Not listed: {len(patches) - MAX_PATCHES} more. The HTML report has all patches."]


_EXPLAINED = (FAILED_ACTION, REFUSED, SKIPPED, *CONDITIONAL, STAYS)


def _list(title: str, texts: t.Sequence[tuple[str, list[str]]]) -> list[str]:
    lines = [f"- {escaped(names_text(names))}: {escaped(text)}" for text, names in texts[:MAX_REASONS]]
    if len(texts) > MAX_REASONS:
        lines.append(f"- {pluralize(len(texts) - MAX_REASONS, 'more text')}")
    return [title, "", *lines] if lines else []
