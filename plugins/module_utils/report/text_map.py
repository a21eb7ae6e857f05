# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The map as text for terminals and job logs: workloads by nodes, before → after, followed by the reasons."""

from __future__ import annotations

import textwrap
import typing as t
from collections.abc import Iterable, Sequence

from ..model.messages import listed, pluralize, printable
from ..spread.restart.actions import CONDITIONAL, EVICTED, FAILED_ACTION, PLANNED, REFUSED, RESTARTED, WOULD_RESTART
from ..spread.verdict import COLLAPSED, HEALTHY, SKEWED, SKIPPED, UNKNOWN
from ..state.restart_outcome import IMPROVED
from .columns import DOMAINS, NODES, ZONES, Grid, busiest_domains, busiest_of, grids
from .rows import EXPECTED, RESTART_HELPS, STAYS, Report, Row, WorkloadObservation, by_message
from .text_style import BAD, BOLD, DIM, Painter, style_of

KINDS = {"Deployment": "deploy", "StatefulSet": "sts"}
ARROW = "→"
OPEN = "·"
GAP = 2
MIN_WIDTH = 60
MAX_NAME = 44
MAX_LABEL = 24
SHORT_TITLE = 16
"""The characters that a title keeps at least, however long the states are."""
SHORT_LABEL = 8
"""Characters of a label that are kept if nothing else fits."""
NAMES_PER_REASON = 12
STAYS_TITLE = "A restart would not help or is not allowed:"
REASONS_NOT_CHECKED = 10
BUSIEST = 5


def render_text(report: Report, *, width: int = 120, max_rows: t.Optional[int] = 60, color: bool = False) -> str:
    """Return the map in lines of at most ``width`` characters. A width below ``MIN_WIDTH`` counts as ``MIN_WIDTH``.

    At most ``max_rows`` workloads are listed, those with actions and problems first. The others are counted. None lists all. ``color`` adds
    the escape sequences of terminals, which do not count for the width.
    """
    width = max(width, MIN_WIDTH)
    rows = report.rows[:max_rows]
    blocks = [_printable(_head(report, width))]
    if rows:
        more = report.rows[len(rows) :]
        blocks.append(_table(report, rows, width, Painter(color=color)) + _not_listed(more))
    blocks.extend(map(_printable, _explanations(report, width)))
    return "\n".join(line for block in blocks if block for line in (*block, "")).rstrip("\n")


# --- head -------------------------------------------------------------------------------------------------------------


def _head(report: Report, width: int) -> list[str]:
    nodes, summary = report.node_counts, report.summary
    lines = [report.cluster.line] if report.cluster.line else []
    lines += [f"error: {report.error}"] if report.error else []
    if nodes:
        workloads = pluralize(summary.get("checked", 0), "workload")
        namespaces = pluralize(summary.get("namespaces", 0), "namespace")
        total = pluralize(nodes.get("total", 0), "node")
        lines.append(f"{workloads} in {namespaces}, {total}, {nodes.get('eligible', 0)} of them open to these workloads")
        message = "" if report.message == report.error else f" {report.message[:1].upper()}{report.message[1:]}."
        lines.append(f"No workload was checked.{message}" if report.reason else counts_line(report))
    if report.lost_nodes:
        lines.append(f"Not ready at the end of the run: {names_text(report.lost_nodes)}")
    return [part for line in lines for part in textwrap.wrap(line, width)]


def counts_line(report: Report, *, separator: str = "   ") -> str:
    """Return the numbers of workloads by verdict and by action."""
    totals = report.totals
    texts = [f"{verdict} {_change(totals[f'{verdict}_before'], totals[f'{verdict}_after'])}" for verdict in (COLLAPSED, SKEWED)]
    if report.checks_only:
        texts.extend(f"{verdict} {report.summary.get(verdict, 0)}" for verdict in (HEALTHY, SKIPPED))
        return separator.join(texts)
    if report.plan:
        planned = [name for name in PLANNED if totals[name] or name == WOULD_RESTART]
        texts.append(f"plan: {', '.join(f'{name} {totals[name]}' for name in planned)}")
    else:
        moved = f"restarted {totals[RESTARTED]}" + (f", evicted from {totals[EVICTED]}" if totals[EVICTED] else "")
        texts.append(moved + (f" (improved {totals['improved']})" if totals[RESTARTED] or totals[EVICTED] else ""))
    texts.extend(f"{name} {totals[name]}" for name in (REFUSED, FAILED_ACTION))
    return separator.join(texts)


def names_text(names: Sequence[str]) -> str:
    """Return the names in one text. Beyond ``NAMES_PER_REASON`` they are counted."""
    return listed(names, NAMES_PER_REASON)


def _change(before: int, after: int, *, mark: str = "") -> str:
    return f"{before}" if before == after else f"{before}{ARROW}{mark}{after}"


# --- table ------------------------------------------------------------------------------------------------------------


def _table(report: Report, rows: Sequence[Row], width: int, paint: Painter) -> list[str]:
    coarsest = _coarsest(report, rows)
    space = width - 2 * GAP - len(coarsest.sums)
    states = _printable(_clip(row_state(row), max(1, space - SHORT_TITLE)) for row in rows)
    state_width = max(map(len, states))
    titles = _printable(_title(row, space - state_width) for row in rows)
    title_width = max(map(len, titles))
    table = _fitting(report, rows, width - title_width - state_width - 2 * GAP) or coarsest
    lines = [" " * (title_width + GAP) + paint(line, BOLD) for line in table.heading]
    for row, title, cells, state in zip(rows, titles, table.lines, states):
        replicas = BAD if row.last.verdict == COLLAPSED else ""
        shown = [paint(cell, DIM if cell.strip() == OPEN else replicas) for cell in cells]
        lines.append(f"{title:<{title_width}}{' ' * GAP}{_spaced(shown)}{' ' * GAP}{paint(state, style_of(row))}")
    lines.append(f"{'all':<{title_width}}{' ' * GAP}{table.sums}")
    legend = [part for text in table.legend for part in textwrap.wrap(text, width, break_on_hyphens=False)]
    return [line.rstrip() for line in lines] + [paint(line, DIM) for line in _printable(legend)]


class _Cells(t.NamedTuple):
    """The middle of the table: lines of equal width, each as its cells, and their legend."""

    heading: list[str]
    lines: list[list[str]]
    sums: str
    legend: list[str]


def _fitting(report: Report, rows: Sequence[Row], width: int) -> t.Optional[_Cells]:
    """Return the finest grid that fits into ``width`` characters. If none fits, return the coarsest with as many columns as fit.

    Return None if not even two of its columns fit.
    """
    most = max(2, width // (GAP + 1))
    candidates = grids(report)
    for grid in candidates:
        for short in (False, True):
            if len(grid.columns) <= most:
                cells = _cells(report, rows, grid, short=short)
                if len(cells.sums) <= width:
                    return cells
    columns = min(most, len(candidates[-1].columns))
    while True:
        cells = _cells(report, rows, busiest_of(candidates[-1], report, max_columns=columns), short=True)
        excess = len(cells.sums) - width
        if excess <= 0:
            return cells
        if columns <= 2:
            return None
        columns = max(2, columns - max(1, excess // (len(cells.sums) // columns + 1)))


def _coarsest(report: Report, rows: Sequence[Row]) -> _Cells:
    """Return the grid with at most two columns and with the shortest labels."""
    return _cells(report, rows, busiest_of(grids(report)[-1], report, max_columns=2), short=True, max_label=SHORT_LABEL)


def _cells(report: Report, rows: Sequence[Row], grid: Grid, *, short: bool, max_label: int = MAX_LABEL) -> _Cells:
    labels, left_out = grid.short_labels() if short else (grid.labels(), "")
    marks = [_clip(label, max_label) + ("*" if column.note else "") for label, column in zip(labels, grid.columns)]
    table = [_row_cells(grid, row.before, row.later, row.mark) for row in rows]
    before, after = report.replicas
    sums = _row_cells(grid, WorkloadObservation(before), WorkloadObservation(after), mark=_mark(report))
    if not grid.shows_every_node:
        marks.append("fullest")
        sums.append("")
        for line, row in zip(table, rows):
            line.append(_change(row.before.fullest, row.later.fullest, mark=row.mark) if row.later.counts else "")
    widths = [max(len(cell) for cell in column) for column in zip(marks, sums, *table)]
    heading = _printable([*_group_line(grid, widths), _spaced(_padded(marks, widths))])
    return _Cells(heading, [_padded(line, widths) for line in table], _spaced(_padded(sums, widths)), _legend(report, grid, left_out))


def _mark(report: Report) -> str:
    """Return the mark of sums: those with expected replicas are expected."""
    return EXPECTED if report.has_expected else ""


def _row_cells(grid: Grid, before: WorkloadObservation, after: WorkloadObservation, mark: str = "") -> list[str]:
    return [
        _cell(now) if (then or 0) == (now or 0) else f"{_cell(then) or OPEN}{ARROW}{mark}{_cell(now) or OPEN}"
        for then, now in zip(_counts(grid, before), _counts(grid, after))
    ]


def _counts(grid: Grid, observation: WorkloadObservation) -> list[t.Optional[int]]:
    cells = grid.counts(observation.counts)
    return cells if observation.all_listed else [count or 0 for count in cells]


def _cell(count: t.Optional[int]) -> str:
    return "" if count is None else str(count) if count else OPEN


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [f"{cell:>{size}}" for cell, size in zip(cells, widths)]


def _spaced(cells: Iterable[str]) -> str:
    return (" " * GAP).join(cells)


def _group_line(grid: Grid, widths: Sequence[int]) -> list[str]:
    groups, texts, start = grid.groups(), [], 0
    for name, size in groups:
        group_width = sum(widths[start : start + size]) + GAP * (size - 1)
        texts.append(f"{_clip(name, group_width)} ".ljust(group_width, "-")[:group_width])
        start += size
    return [_spaced(texts)] if groups else []


def _legend(report: Report, grid: Grid, left_out: str) -> list[str]:
    unit = {NODES: "node", ZONES: "zone"}.get(grid.unit, report.topology_key)
    texts = [f"replicas by {unit}", f"{OPEN} none, but open to it"]
    if report.seen_twice:
        texts.append(f"before{ARROW}after")
    if report.has_expected:
        texts.append(f"before{ARROW}{EXPECTED}expected")
    if left_out:
        texts.append(f"the names are short forms of {left_out}")
    if not grid.shows_every_node:
        texts.append("fullest: replicas in the fullest " + ("domain" if grid.unit == DOMAINS else "single node"))
    notes = sorted({column.note for column in grid.columns if column.note})
    if notes:
        texts.append(f"* {' or '.join(notes)}")
    text = f"({'; '.join(texts)})"
    if grid.shows_every_node or grid.unit == DOMAINS:
        return [text]
    busiest = [f"{name} {_change(before, after, mark=_mark(report))}" for name, before, after in busiest_domains(report, limit=BUSIEST)]
    return [text, f"Nodes with most replicas of these workloads: {', '.join(busiest)}"]


def _title(row: Row, width: int) -> str:
    kind = f"{KINDS.get(row.kind, row.kind):<6} "
    return kind + _clip(f"{row.namespace}/{row.name}", min(MAX_NAME, width - len(kind)))


def row_state(row: Row) -> str:
    """Return the verdict of a workload, before and after, and its action."""
    verdict = row.before.verdict
    if row.after is not None and row.after.verdict and row.after.verdict != verdict:
        verdict = f"{verdict} {ARROW} {row.after.verdict}"
    if row.outcome == IMPROVED and row.last.verdict == HEALTHY:
        return verdict
    pods = f" ({pluralize(row.evicted, 'pod')})" if row.evicted else ""
    if row.action in (RESTARTED, EVICTED):
        return f"{verdict}, {row.outcome or row.action}{pods}"
    if row.action == FAILED_ACTION and pods:
        return f"{verdict}, evicted{pods}, failed"
    return f"{verdict}, {row.action}{pods}" if row.action else verdict


def _clip(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    head = max(0, (size - 1) // 2)
    return text[:head] + "…" + text[len(text) - (size - head - 1) :] if size > 1 else text[:size]


def _not_listed(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    unremarkable = sum(row.unremarkable for row in rows)
    return [f"{len(rows)} more {'is' if len(rows) == 1 else 'are'} not listed, {unremarkable} of them healthy or skipped"]


# --- reasons ----------------------------------------------------------------------------------------------------------


def _explanations(report: Report, width: int) -> Iterable[list[str]]:
    titles = {
        FAILED_ACTION: "Failed:",
        REFUSED: "Refused:",
        SKIPPED: "Skipped:",
        STAYS: STAYS_TITLE if report.checks_only else f"Not moved, because {STAYS_TITLE[0].lower()}{STAYS_TITLE[1:]}",
    }
    for action, title in titles.items():
        yield _by_text(title, [(row.message, row) for row in report.rows if row.action == action], width)
    conditional = [(row.message, row) for row in report.rows if row.action in CONDITIONAL]
    yield _by_text("Planned on a condition:", conditional, width)
    waiting = sum(row.action == RESTART_HELPS for row in report.rows)
    if waiting and not report.plan:
        yield [f"{pluralize(waiting, 'workload')} can be restarted; this run only checks."]
    not_checked = [row for row in report.rows if not row.action and row.last.verdict in (UNKNOWN, SKIPPED)]
    yield _by_text("Not checked:", [(row.last.message, row) for row in not_checked], width, most=REASONS_NOT_CHECKED)
    yield _by_text("Advice:", [(advice.reason.text, row) for row in report.rows for advice in row.advice], width)
    skipped = [f"{names_text(names)}: {reason.text}" for reason, names in report.skipped_by_reason]
    if skipped:
        yield ["Namespaces left out:", *(line for text in skipped for line in _indented(text, width))]
    objects = [f"{name}: {reason}" for name, reason in sorted(report.skipped_objects.items())]
    if objects:
        yield ["Objects that cannot be decoded:", *(line for text in objects for line in _indented(text, width))]


def _by_text(title: str, pairs: Iterable[tuple[str, Row]], width: int, *, most: t.Optional[int] = None) -> list[str]:
    """Return each text once, with its workloads. Only the first ``most`` texts are returned."""
    found = by_message((text, f"{KINDS.get(row.kind, row.kind)} {row.namespace}/{row.name}") for text, row in pairs)
    lines = [line for text, names in found[:most] for line in _indented(f"{names_text(names)}: {text}", width)]
    left_out = sum(len(names) for _text, names in found[most:]) if most is not None else 0
    if left_out:
        lines.append(f"  {pluralize(left_out, 'more workload')} for other reasons")
    return [*textwrap.wrap(title, width), *lines] if lines else []


def _indented(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)


def _printable(lines: Iterable[str]) -> list[str]:
    """Return the lines without control characters. Their texts come from the cluster."""
    return [printable(line) for line in lines]
