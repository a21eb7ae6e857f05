# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The columns of a map.

These are nodes grouped by zone if they fit, otherwise zones, otherwise the zones with most replicas and one column for all others.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.well_known import HOSTNAME
from .rows import Counts, NodeColumn, Report, natural

NODES = "nodes"
ZONES = "zones"
DOMAINS = "domains"

NO_ZONE = "no zone"


@dataclass(frozen=True)
class Column:
    """One column: its label, its zone (empty if it has none), and the domains whose replicas it adds up."""

    label: str
    group: str
    domains: tuple[str, ...]
    note: str = ""


class Grid:
    """The columns of a map, and the assignment of counts to them.

    ``unit`` is nodes, zones or domains. ``others`` is the number of columns that the last column adds up.
    """

    def __init__(self, unit: str, columns: Sequence[Column], *, others: int = 0) -> None:
        self.unit = unit
        self.columns = tuple(columns)
        self.others = others
        self._place = {domain: number for number, column in enumerate(self.columns) for domain in column.domains}

    @property
    def shows_every_node(self) -> bool:
        """Return whether each column is a single node."""
        return self.unit == NODES and not self.others

    def counts(self, counts: Counts) -> list[t.Optional[int]]:
        """Return the replicas by column. None means that the workload cannot use any domain of the column."""
        cells: list[t.Optional[int]] = [None] * len(self.columns)
        for domain, count in counts.items():
            place = self._place.get(domain)
            if place is not None:
                cells[place] = (cells[place] or 0) + count
        return cells

    def labels(self) -> list[str]:
        """Return the full labels of the columns."""
        return [column.label for column in self.columns]

    def short_labels(self) -> tuple[list[str], str]:
        """Return the labels without their common parts, and these parts as ``beginning…end``. The second is empty if there are none."""
        labels = self.labels()
        last = labels[-1:] if self.others else []
        short, left_out = _shortened(labels[: len(labels) - len(last)])
        return short + last, left_out

    def groups(self) -> list[tuple[str, int]]:
        """Return the name and the number of columns of each zone, for adjacent columns. It is empty if columns have no zones."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return [(name or NO_ZONE, size) for name, size in found] if any(name for name, _size in found) else []


def _shortened(names: Sequence[str]) -> tuple[list[str], str]:
    """Return the names without their common prefix and their common domain name, and the removed parts."""
    if len(names) < 2:
        return list(names), ""
    end = names[0][names[0].find(".") :] if "." in names[0] else ""
    if any(not name.endswith(end) for name in names):
        end = ""
    bare = [name[: len(name) - len(end)] for name in names]
    first, last = min(bare), max(bare)
    common = next((place for place, letter in enumerate(first) if last[place : place + 1] != letter), len(first))
    start = first[: max(first[:common].rfind(mark) for mark in "-._") + 1]
    return [name[len(start) :] for name in bare], f"{start}…{end}" if start or end else ""


def grids(report: Report) -> list[Grid]:
    """Return all grids that show all domains, from the finest to the coarsest."""
    nodes = shown_nodes(report)
    if report.topology_key != HOSTNAME:
        return [Grid(DOMAINS, [Column(node.name, "", (node.name,)) for node in nodes])]
    by_node = Grid(NODES, [_node_column(node) for node in nodes])
    zones: dict[str, list[str]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node.name)
    by_zone = Grid(ZONES, [Column(zone or NO_ZONE, "", tuple(names)) for zone, names in zones.items()])
    return [by_node, by_zone] if len(zones) > 1 else [by_node]


def busiest_of(grid: Grid, report: Report, *, max_columns: int) -> Grid:
    """Return a grid with the columns that have most replicas, in their order, and a last column for all others.

    It has at most ``max_columns`` columns, but never fewer than 2.
    """
    if len(grid.columns) <= max_columns:
        return grid
    before, after = report.replicas
    load = [sum(max(before[name], after[name]) for name in column.domains) for column in grid.columns]
    kept = set(sorted(range(len(load)), key=lambda place: -load[place])[: max(1, max_columns - 1)])
    shown = [Column(column.label, "", column.domains, column.note) for place, column in enumerate(grid.columns) if place in kept]
    rest = tuple(name for place, column in enumerate(grid.columns) if place not in kept for name in column.domains)
    others = len(grid.columns) - len(shown)
    return Grid(grid.unit, [*shown, Column(f"{others} others", "", rest)], others=others)


def busiest_domains(report: Report, *, limit: int) -> list[tuple[str, int, int]]:
    """Return name, replicas before and replicas after of the domains with most replicas of these workloads."""
    before, after = report.replicas
    names = [name for name in before.keys() | after.keys() if before[name] or after[name]]
    names.sort(key=lambda name: (-max(before[name], after[name]), natural(name)))
    return [(name, before[name], after[name]) for name in names[:limit]]


def shown_nodes(report: Report) -> list[NodeColumn]:
    """Return the domains that have or may have replicas of the listed workloads, by zone and name. Those without a zone are last.

    If the results of the check omit domains without replicas, all nodes are returned, so that an empty zone is visible.
    """
    known = {node.name: node for node in report.nodes} if report.topology_key == HOSTNAME else {}
    before, after = report.replicas
    names = set(before) | set(after)
    if not all(observation.all_listed for row in report.rows for observation in (row.before, row.last)):
        names |= set(known)
    nodes = [known.get(name, NodeColumn(name)) for name in names]
    return sorted(nodes, key=lambda node: (not node.zone, natural(node.zone), natural(node.name)))


def _node_column(node: NodeColumn) -> Column:
    note = "not ready" if not node.ready else "" if node.schedulable else "cordoned"
    return Column(node.name, node.zone, (node.name,), note)
