# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/development/benchmarks.md: parts that are measured apart, each of which leaves the others as they are."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "development" / "benchmarks.md"
PARTS = ("spread", "uneven", "start", "report", "rescue", "extender", "extender-binding", "site")
HEADER = """<!--
SPDX-License-Identifier: GPL-3.0-or-later
Copyright: onprem.kube_scheduling contributors
-->
# Benchmarks

`make bench` measures whole processes on simulated clusters (a real API server and etcd) and writes this page. Only ratios of one run
can be compared: cluster and client share the machine's cores. `python -m tests.bench --part rescue` measures one part, and leaves the
others as they are.
"""
_MARK = re.compile(r"^<!-- part: ([\w-]+) -->\n", re.MULTILINE)


def write(part: str, section: str) -> None:
    """Put the part's newest section into the page."""
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "", part, section), encoding="utf-8")


def replaced(page: str, part: str, section: str) -> str:
    """The page with another section for this part."""
    _, *found = _MARK.split(page)
    sections = {**dict(zip(found[::2], found[1::2], strict=True)), part: section}
    whole = [f"<!-- part: {name} -->\n{sections[name].strip()}\n" for name in PARTS if name in sections]
    return "\n".join([HEADER, *whole])


def machine() -> str:
    """Return the description of the machine. Each part has one, because parts can be measured on different machines."""
    return f"Measured on {os.cpu_count()} cores with Python {sys.version.split()[0]}."


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def goal(value: float, most: float, unit: str, *, digits: int = 0) -> str:
    """Return the text that says whether a goal is met, with the measured value and the limit."""
    return f"{'met' if value <= most else 'missed'}: {value:.{digits}f} {unit}, limit {most:.{digits}f} {unit}"
