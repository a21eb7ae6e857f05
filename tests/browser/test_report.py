# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML report in a real browser: search, sorting, zones, states, links, print, barriers, and hostile names.

The pictures are in tests/output/browser/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.html_page import render_html
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.patch_text import patch_text
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report

from tests.browser.axe import violations
from tests.browser.browser import Page
from tests.unit.report.results import HOST, Json, check, even, nodes, piled, restart, workload
from tests.unit.report.test_html_page import HOSTILE

PICTURES = Path(__file__).parents[1] / "output" / "browser"
TIME = "2026-01-31 08:15 UTC"
NAMES = "[...document.querySelectorAll('tbody th.name a')].map(one => one.innerText)"
COLUMNS = "[...document.querySelectorAll('thead tr:last-child th.node button')].map(one => one.innerText.replace(/\\s+of [^]*/, ''))"
STATUS = "document.querySelector('[role=status]').innerText"
FOCUS = "document.activeElement.dataset.key || document.activeElement.id || document.activeElement.innerText"

Open = Callable[..., None]


@pytest.fixture
def report(page: Page, tmp_path: Path) -> Iterator[Open]:
    """Opens the report on these results. ``anchor`` is the end of the address."""

    def show(before: Any, *, anchor: str = "", cluster: str = "berlin", **options: Any) -> None:
        file = tmp_path / "report.html"
        file.write_text(render_html(build_report({"cluster": {"name": cluster}, **before}, **options), time=TIME), encoding="utf-8")
        page.open("about:blank")
        page.open(f"{file.as_uri()}{anchor}")

    page.emulate()
    yield show
    page.set_scripts(allowed=True)
    page.emulate()


def patch_of(name: str) -> Json:
    """A patch as the advice has it."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    return {"spec": {"template": {"spec": {"topologySpreadConstraints": [constraint]}}}}


def run_on(count: int, *, zones: int = 2, moved: int = 3, healthy: int = 2) -> tuple[Json, dict[str, Any]]:
    """The results of a run that spread ``moved`` workloads, and could not help one."""
    node_list = nodes(count, zones=zones)
    node_list[-1]["schedulable"] = False
    spaces = ("shop", "platform")
    first = [
        workload(
            f"web-{number}",
            piled(node_list, 4 + number),
            "collapsed",
            namespace=spaces[number % 2],
            restart_helps=True,
            advice=[{"reason": "no_spreading_rule", "message": "add a topologySpreadConstraint", "patch": patch_of(f"web-{number}")}],
        )
        for number in range(moved)
    ]
    then = [{**entry, "domains": {HOST: even(node_list, entry["replicas"])}, "verdict": "healthy"} for entry in first]
    big = workload("big", piled(node_list, 2), "collapsed", blockers=[{"reason": "x", "message": "Insufficient memory", "nodes": 5}])
    one = workload("dashboard", {node_list[1]["name"]: 1}, "skipped", message="spreading needs at least 2 replicas")
    rest = [big, one, *(workload(f"fine-{number:04d}", even(node_list, 3), "healthy") for number in range(healthy))]
    return check([*first, *rest], node_list), {"after": check([*then, *rest], node_list), "restart": restart(*first)}


def click(page: Page, selector: str) -> None:
    page.value(f"document.querySelector({selector!r}).click()")


def choose(page: Page, control: str, value: str) -> None:
    """Set the value of a control as a person does."""
    event = "input" if control in ("find", "node") else "change"
    page.value(f"(one => {{ one.value = {value!r}; one.dispatchEvent(new Event('{event}')); }})(document.getElementById('{control}'))")


def cells(page: Page, name: str) -> list[str]:
    """The texts of the cells of a workload between its replicas and the fullest node. An open cell without replicas has no text."""
    row = f"[...document.querySelectorAll('tbody tr')].find(one => one.querySelector('a').innerText === {name!r})"
    found: list[str] = page.value(f"[...{row}.querySelectorAll('td.cell')].map(one => one.innerText)")
    return found


VIEWS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"dark": True},
    "narrow": {"width": 420, "height": 900},
    "print": {"printing": True},
}
OPENED = "[...document.querySelectorAll('details')].slice(0, 2).forEach(one => one.open = true)"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("name", "nodes_", "options"), [("run", 6, {}), ("zones", 120, {"zones": 4, "healthy": 150}), ("check", 6, {})])
def test_there_are_no_barriers_and_nothing_is_cut_off(
    page: Page, report: Open, view: str, name: str, nodes_: int, options: dict[str, int]
) -> None:
    page.emulate(**VIEWS[view])
    before, more = run_on(nodes_, **options)
    report(before, **(more if name != "check" else {}), error="the second check failed" if name == "zones" else "")
    if name == "check":
        page.value("dispatchEvent(new Event('beforeprint'))" if view == "print" else OPENED)
    page.screenshot(PICTURES / f"report-{name}-{view}.png", whole=True)
    assert violations(page) == []
    assert page.problems == []
    if view != "print":
        assert page.value("document.documentElement.scrollWidth <= window.innerWidth"), "the map scrolls, and not the page"
    if name == "zones" and view == "light":
        click(page, "thead th[scope=colgroup] button")
        page.screenshot(PICTURES / "report-zone-open.png", whole=True)
        assert violations(page) == []


def test_a_check_without_a_restart_has_no_columns_of_a_run(page: Page, report: Open) -> None:
    before, _more = run_on(6)
    report(before)
    text = page.text()
    assert "a restart helps" in text and "restarted" not in text and "improved" not in text
    assert page.value("document.querySelector('input[name=when]')") is None


def test_before_and_after_are_two_states_of_one_map(page: Page, report: Open) -> None:
    before, more = run_on(6)
    report(before, **more)
    columns = page.value(COLUMNS)
    assert cells(page, "web-0") == ["4→1", "0→1", "", "0→1", "0→1", ""]
    click(page, "input[value=before]")
    assert cells(page, "web-0") == ["4", "", "", "", "", ""]
    assert page.value("document.querySelector('tbody tr').className") == "collapsed"
    click(page, "input[value=after]")
    assert cells(page, "web-0") == ["1", "1", "", "1", "1", ""]
    assert page.value("document.querySelector('tbody tr').className") == "healthy"
    assert page.value(COLUMNS) == columns, "both states have the same columns"
    assert page.value("document.querySelectorAll('tbody tr:first-child td.changed').length") == 5, "those of web-1"


def test_workloads_are_filtered(page: Page, report: Open) -> None:
    before, more = run_on(6)
    report(before, **more)
    assert page.value(NAMES) == ["web-1", "web-0", "web-2", "big"], "those with problems or changes"
    assert page.value(STATUS) == "4 of 7 workloads match"
    choose(page, "show", "all")
    assert len(page.value(NAMES)) == 7
    choose(page, "find", "WEB shop/")
    assert page.value(NAMES) == ["web-0", "web-2"]
    choose(page, "find", "")
    choose(page, "namespace", "platform")
    assert page.value(NAMES) == ["web-1"]
    choose(page, "namespace", "")
    choose(page, "node", "worker-2")
    assert "big" not in page.value(NAMES) and "dashboard" in page.value(NAMES)
    choose(page, "show", "skipped")
    assert page.value(NAMES) == ["dashboard"]
    choose(page, "find", "nothing has this name")
    assert page.value(NAMES) == [] and page.value(STATUS) == "0 of 7 workloads match"
    assert page.problems == []


def test_columns_are_sorted_by_keyboard(page: Page, report: Open) -> None:
    before, more = run_on(6)
    report(before, **more)
    page.value("document.querySelector('[data-key=\"sort replicas\"]').focus()")
    sort = "document.querySelector('[data-key=\"sort replicas\"]').closest('th').getAttribute('aria-sort')"
    order = []
    for _press in range(3):
        page.press("Enter")
        order.append((page.value(sort), page.value(NAMES)))
        assert page.value(FOCUS) == "sort replicas", "the focus stays although the table is made again"
    assert order == [
        ("descending", ["web-2", "web-1", "web-0", "big"]),
        ("ascending", ["big", "web-0", "web-1", "web-2"]),
        (None, ["web-1", "web-0", "web-2", "big"]),
    ]
    page.press("Tab")
    assert page.value(FOCUS) == "sort node worker-1"
    page.press(" ")
    assert page.value(NAMES)[0] == "big", "it has the most replicas on worker-1 after the run"


def test_a_zone_opens_into_its_nodes(page: Page, report: Open) -> None:
    before, more = run_on(120, zones=4)
    report(before, **more)
    assert page.value(COLUMNS) == ["30 nodes"] * 4
    assert cells(page, "web-0") == ["4→1", "0→1", "0→1", "0→1"]
    page.value("document.querySelector('[data-key=\"zone zone-1\"]').focus()")
    page.press("Enter")
    assert page.value("document.activeElement.getAttribute('aria-expanded')") == "true"
    columns = page.value(COLUMNS)
    assert (len(columns), columns[0], columns[-3:]) == (33, "worker-1", ["30 nodes"] * 3)
    assert cells(page, "web-0")[0] == "4→1"
    page.press("Enter")
    assert page.value(COLUMNS) == ["30 nodes"] * 4


def test_a_big_zone_opens_into_the_nodes_with_most_replicas(page: Page, report: Open) -> None:
    before, more = run_on(2000, zones=2)
    report(before, **more)
    click(page, '[data-key="zone zone-1"]')
    columns = page.value(COLUMNS)
    assert len(columns) == 42 and columns[0] == "worker-1" and columns[40] == "960 others"
    choose(page, "node", "worker-1001")
    click(page, "button[type=button]:not([data-key])")
    assert "worker-1001" in page.value(COLUMNS), "a node that is searched has its own column"


def test_a_workload_has_a_link_that_also_works_if_a_filter_hides_it(page: Page, report: Open) -> None:
    before, more = run_on(6, healthy=250)
    report(before, **more)
    assert page.value("document.querySelector('tbody a').hash") == "#Deployment/platform/web-1"
    report(before, **more, anchor="#Deployment/shop/fine-0240")
    assert page.value("document.querySelector('tr[aria-current] a').innerText") == "fine-0240"
    assert page.value("document.activeElement.innerText") == "fine-0240"
    box = "document.querySelector('tr[aria-current]').getBoundingClientRect()"
    assert page.value(f"{box}.top > 0 && {box}.bottom < innerHeight"), "it is visible"
    assert "worker-1: 1" in page.value("document.querySelector('tr[aria-current] details[open]').innerText")
    page.value("location.hash = '#Deployment/shop/web-0'")
    assert page.value("new Promise(done => setTimeout(done, 50)) && document.querySelector('tr[aria-current]') !== null")


def test_many_rows_come_in_parts_and_print_has_all(page: Page, report: Open) -> None:
    before, more = run_on(6, healthy=250)
    report(before, **more)
    choose(page, "show", "all")
    assert len(page.value(NAMES)) == 100
    assert page.value("document.querySelector('[data-key=more]').innerText") == "Show 100 more of 155"
    click(page, "[data-key=more]")
    assert len(page.value(NAMES)) == 200 and page.value(FOCUS) == "more"
    page.value("dispatchEvent(new Event('beforeprint'))")
    assert len(page.value(NAMES)) == 255
    assert page.value("document.querySelector('details').open"), "paper cannot be opened"
    page.value("dispatchEvent(new Event('afterprint'))")
    assert len(page.value(NAMES)) == 200
    page.emulate(printing=True)
    hidden = "[...document.querySelectorAll('.controls, .more')].every(one => getComputedStyle(one).display === 'none')"
    assert page.value(hidden) and page.value("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
    page.emulate()
    page.pdf(PICTURES / "report.pdf")
    pages = re.findall(rb"/Type\s*/Page\b", (PICTURES / "report.pdf").read_bytes())
    assert len(pages) > 3


def test_hostile_texts_are_text(page: Page, report: Open) -> None:
    entry = workload(
        HOSTILE,
        {HOSTILE: 2, "b": 0},
        HOSTILE,
        kind=HOSTILE,
        namespace=HOSTILE,
        message=HOSTILE,
        advice=[{"reason": HOSTILE, "message": HOSTILE, "patch": {HOSTILE: [HOSTILE, "\u202e`@\x7f"]}}],
    )
    node_list = [{"name": name, "hostname": name, "zone": HOSTILE, "ready": True, "schedulable": True} for name in (HOSTILE, "b")]
    more = {"skipped_namespaces": [{"namespace": HOSTILE, "reason": HOSTILE, "message": HOSTILE}]}
    report(check([entry], node_list, **more), cluster=HOSTILE, error=HOSTILE)
    visible = HOSTILE.partition("\u2028")[0]
    assert page.value(NAMES)[0].startswith(visible)
    assert page.value("document.querySelector('[role=alert]').innerText").startswith(f"Error. {visible}")
    shown = page.value("document.querySelector('pre.patch').textContent")
    assert json.loads(shown) == {HOSTILE: [HOSTILE, "\u202e`@\x7f"]} and shown == patch_text(json.loads(shown)) and shown.isascii()
    assert page.value("document.images.length") == 0 and page.value("document.scripts.length") == 2
    assert page.problems == [], "no dialog, and nothing that the policy had to stop"


@pytest.mark.parametrize("clipboard", ["granted", "denied"])
def test_a_patch_is_copied_by_keyboard(page: Page, report: Open, clipboard: str) -> None:
    """The text is pasted into a field of the page, so that it is the browser's clipboard that is read."""
    before, _more = run_on(6)
    page.set_permission("clipboard-write", clipboard)
    report(before, anchor="#Deployment/shop/web-0")
    row = "document.querySelector('tr[aria-current]')"
    assert page.value(f"{row}.querySelector('details').open"), "the link of a workload opens its advice"
    assert page.value(f"{row}.querySelector('.copy').innerText.replace(/\\s+/g, ' ')") == "Copy the patch of Deployment shop/web-0"
    while page.value("document.activeElement.className") != "copy":
        page.press("Tab")
    page.press("Enter")
    assert page.promised(f"new Promise(done => setTimeout(() => done({row}.querySelector('.told').innerText), 300))") == "Copied."
    assert page.value("document.activeElement.className") == "copy", "the focus stays"
    assert json.loads(page.value("getSelection().toString()")) == patch_of("web-0")
    page.value("document.getElementById('find').focus()")
    page.paste()
    assert json.loads(page.value("document.getElementById('find').value")) == patch_of("web-0")
    assert violations(page) == [] and page.problems == []


def test_the_policy_stops_other_scripts(page: Page, report: Open) -> None:
    report(run_on(6)[0])
    page.value("document.body.appendChild(document.createElement('script')).text = 'document.title = \"executed\"'")
    assert page.value("document.title") == "Spread of workloads: berlin"
    assert any("Content Security Policy" in problem for problem in page.problems)


def test_without_scripts_the_page_shows_the_map_as_text(page: Page, report: Open) -> None:
    page.set_scripts(allowed=False)
    before, more = run_on(6)
    report(before, **more)
    page.screenshot(PICTURES / "report-without-scripts.png", whole=True)
    page.set_scripts(allowed=True)
    assert "4→1" in page.value("document.getElementById('text').innerText")
    patches = page.value("[...document.querySelectorAll('pre.patch')].map(one => one.innerText)")
    assert [json.loads(text) for text in patches] == [patch_of(f"web-{number}") for number in (1, 0, 2)]
    assert page.value("document.querySelector('h2').innerText") == "Patch of Deployment platform/web-1: no_spreading_rule"


def test_problems_of_the_run_are_on_top(page: Page, report: Open) -> None:
    before, more = run_on(6)
    lost = {**more["after"], "node_list": [{**one, "ready": one["name"] != "worker-2"} for one in more["after"]["node_list"]]}
    report(before, after=lost, restart=more["restart"], error="the second check failed")
    error, not_ready = page.value("[...document.querySelectorAll('.banner')].map(one => one.innerText)")
    assert error == "Error. the second check failed" and not_ready.startswith("Not ready ") and not_ready.endswith(": worker-2")
    web = before["workloads"][0]
    planned = restart(web, action="would_restart", outcome="pending", expected={HOST: even(nodes(6), 4)})
    report(before, restart=planned, plan=True)
    assert page.value("document.querySelector('.banner').innerText").startswith("Plan. Nothing was restarted. ")
    report(check([], nodes(1), reason="too_few_ready_nodes", message="there is 1 node"))
    assert "No workload was checked" in page.value("document.querySelector('.banner').innerText")
    assert page.value("document.querySelector('table')") is None and page.problems == []


def test_a_plan_shows_the_expected_replicas(page: Page, report: Open) -> None:
    node_list = nodes(3, zones=0)
    web = workload("web", {"worker-1": 4, "worker-2": 0, "worker-3": 0}, "collapsed", restart_helps=True)
    expected = {HOST: {"worker-1": 0, "worker-2": 3, "worker-3": 1}}
    planned = restart(web, action="would_restart", outcome="pending", expected=expected)
    report(check([web], node_list), restart=planned, plan=True)
    assert cells(page, "web") == ["4→~0", "0→~3", "0→~1"]
    assert "'~': expected after the action." in page.value("document.getElementById('report').innerText")
    page.value("[...document.querySelectorAll('input[name=when]')][1].click()")
    assert cells(page, "web") == ["", "~3", "~1"]
    page.value("[...document.querySelectorAll('input[name=when]')][0].click()")
    assert cells(page, "web") == ["4", "", ""] and page.problems == []


def test_domains_other_than_nodes_are_columns(page: Page, report: Open) -> None:
    key = "topology.kubernetes.io/zone"
    report(check([workload("web", {"a": 3, "b": 0}, "collapsed", key=key)], nodes(4)))
    assert page.value(COLUMNS) == ["a", "b"] and cells(page, "web") == ["3", ""]
    assert page.value("document.querySelector('th[scope=colgroup]')") is None


def test_five_thousand_nodes_and_a_thousand_workloads_are_usable(page: Page, report: Open) -> None:
    """`make bench PART=report` measures the time."""
    node_list = nodes(5000, zones=10)
    entries = [
        workload(
            f"w{number:04d}",
            {node_list[(number * 7 + step * 13) % 5000]["name"]: 1 for step in range(20)},
            "healthy",
            eligible_domains={HOST: 5000},
        )
        for number in range(1000)
    ]
    report(check(entries, node_list))
    assert page.value(COLUMNS) == ["500 nodes"] * 10
    click(page, '[data-key="zone zone-3"]')
    assert len(page.value(COLUMNS)) == 50
    choose(page, "find", "w0999")
    assert page.value(NAMES) == ["w0999"]
    assert page.value("document.querySelectorAll('*').length") < 5000
