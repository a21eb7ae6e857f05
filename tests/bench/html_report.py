# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench.html_report``: the HTML report of a big cluster in Chromium, from the file to the map and after each action."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.html_page import render_html
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report

from tests.bench import page
from tests.browser.browser import Page, browser
from tests.unit.report.results import HOST, Json, check, nodes, restart, workload

NODES, ZONES, WORKLOADS, REPLICAS = 5000, 10, 1000, 20
COLLAPSED = 50
RUNS = 5
MAX_OPEN_S = 2.0
SEED = 1

ACTIONS = {
    "search a workload": "one = document.getElementById('find'); one.value = 'w0999'; one.dispatchEvent(new Event('input'))",
    "show all workloads": "one = document.getElementById('show'); one.value = 'all'; one.dispatchEvent(new Event('change'))",
    "open a zone with 500 nodes": "document.querySelector('[data-key=\"zone zone-3\"]').click()",
    "sort by the fullest node": "document.querySelector('[data-key=\"sort fullest\"]').click()",
    "show the state before": "document.querySelector('input[value=before]').click()",
    "open all zones": "[...document.querySelectorAll('button')].find(one => one.innerText === 'Open all zones').click()",
    "prepare the print of all workloads": "dispatchEvent(new Event('beforeprint'))",
}
"""The actions of a person, each on a page that was just opened."""

TIMED = "(() => {{ let one; const began = performance.now(); {action}; document.body.offsetHeight; return performance.now() - began; }})()"
"""The milliseconds of an action with the layout of its result."""


def main() -> None:
    """Measure, print, and write the part of the page."""
    section = measured()
    print(section)
    page.write("report", section)


def measured() -> str:
    """The section of the page, measured now."""
    before, options = _results()
    began_s = time.process_time()
    html = render_html(build_report(before, **options), time="2026-01-31 08:15 UTC")
    made_s = time.process_time() - began_s
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder, browser(Path(folder)) as tab:
        file = Path(folder) / "report.html"
        file.write_text(html, encoding="utf-8")
        opened, actions = _measure(tab, file.as_uri())
        assert tab.problems == [], tab.problems
    return section(made_s, len(html), opened, actions)


def _measure(tab: Page, address: str) -> tuple[list[float], dict[str, list[float]]]:
    """Return the seconds until the map is complete, and the milliseconds of each action."""
    opened: list[float] = []
    actions: dict[str, list[float]] = {name: [] for name in ACTIONS}
    for _run in range(RUNS):
        opened.append(_open(tab, address))
        for name, action in ACTIONS.items():
            _open(tab, address)
            actions[name].append(tab.value(TIMED.format(action=action)))
    return opened, actions


def _open(tab: Page, address: str) -> float:
    tab.open("about:blank")
    began_s = time.monotonic()
    tab.open(address)
    assert tab.value("document.querySelectorAll('tbody tr').length") > 0
    assert tab.value("document.body.offsetHeight") > 0
    return time.monotonic() - began_s


def _results() -> tuple[Json, dict[str, Any]]:
    """The results of a run on a big cluster, in which some workloads were collapsed before.

    As in a check of so many nodes, only domains with replicas are listed.
    """
    numbers = random.Random(SEED)
    node_list = nodes(NODES, zones=ZONES)
    names = [node["name"] for node in node_list]
    first, then = [], []
    for number in range(WORKLOADS):
        spread = dict.fromkeys(numbers.sample(names, REPLICAS), 1)
        collapsed = number < COLLAPSED
        entry = workload(
            f"w{number:04d}",
            {numbers.choice(names): REPLICAS} if collapsed else spread,
            "collapsed" if collapsed else "healthy",
            namespace=f"team-{number % 40}",
            restart_helps=True if collapsed else None,
            eligible_domains={HOST: NODES},
        )
        first.append(entry)
        then.append({**entry, "domains": {HOST: spread}, "verdict": "healthy"})
    return check(first, node_list), {"after": check(then, node_list), "restart": restart(*first[:COLLAPSED])}


def section(made_s: float, size: int, opened: Sequence[float], actions: Mapping[str, Sequence[float]]) -> str:
    """The figures as text."""
    rows = [["open the file, until the map is complete", f"{statistics.median(opened):.2f}", f"{max(opened):.2f}"]]
    rows += [[name, f"{statistics.median(times) / 1000:.2f}", f"{max(times) / 1000:.2f}"] for name, times in actions.items()]
    return f"""## The HTML report

The report of a run on {NODES:,} nodes in {ZONES} zones with {WORKLOADS:,} workloads of {REPLICAS} replicas, in a headless Chromium.
{COLLAPSED} workloads were collapsed before. The page has {size / 1e6:.1f} MB, and Python needs {made_s:.2f} s of CPU time to make it.
Each action is measured with the layout of its result, on a page that was just opened.

{page.machine()}

{page.table(["", f"median s of {RUNS}", "longest s"], rows)}

Goal: the report opens in less than {MAX_OPEN_S:.0f} s. {page.goal(statistics.median(opened), MAX_OPEN_S, "s", digits=2)}.
"""


if __name__ == "__main__":
    main()
