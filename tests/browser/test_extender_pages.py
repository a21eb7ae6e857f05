# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the extender in a real browser: the status page and /explain, of a real process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.browser.browser import Page
from tests.unit.services.extender.extender_objects import names_body
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Server
from tests.unit.services.extender.test_program import ask, program, wait_for

FILE = """
listen: 127.0.0.1:0
status_address: 127.0.0.1:0
sources: {{prometheus: {{urls: ["{url}"], refresh_s: 1}}}}
profiles:
  quiet:
    agents:
    - {{name: metric, args: {{query: load, timestamp_of: load, best: 0, worst: 10}}}}
"""
AGE_S = 12
HOSTILE = """<img src=x onerror="document.title='executed'"><script>document.title='executed'</script>'&quot;"""
REFRESHES_WITHIN_S = 30.0
ALERT = "document.querySelector('[role=alert]')"
ALERTS = "[...document.querySelectorAll('[role=alert]')].map(one => one.innerText)"


class Pages(NamedTuple):
    """The addresses of a running extender, and its Prometheus."""

    status: str
    scheduler: str
    prometheus: Server
    file: Path

    def ask_about(self, name: str) -> None:
        """Send the request of a scheduler for a pod."""
        ask(self.scheduler, "POST", "/scheduler/prioritize", names_body(["node-a", "node-b"], name=name, uid=name))

    def set_load(self, **loads: float) -> None:
        """Set the values of nodes. The nodes have their names from the label ``instance``."""
        self.prometheus.vectors["load"] = [({"instance": name.replace("_", "-")}, str(load)) for name, load in loads.items()]
        times = [(labels, str(NOW_S - AGE_S)) for labels, _value in self.prometheus.vectors["load"]]
        self.prometheus.vectors[TIMES] = times


TIMES = "max by (instance) (timestamp(load))"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    server = Server()
    file = tmp_path / "config.yaml"
    file.write_text(FILE.format(url=server.url))
    with program(file) as running:
        made = Pages(f"http://{running.status_address}", running.address, server, file)
        made.set_load(node_a=2.5, node_b=7.5)
        wait_for(lambda: b"2.5" in ask(running.status_address, "GET", "/status?format=json"))
        yield made
    server.stop()


def test_the_status_page_shows_value_age_and_score_of_each_node(page: Page, pages: Pages) -> None:
    pages.ask_about("web")
    page.open(f"{pages.status}/status")
    first, second = page.table()
    assert (first[0], first[1], first[4], first[7]) == ("node-a", "7", "metric", "2.5")
    assert (second[0], second[1], second[7]) == ("node-b", "2", "7.5")
    assert AGE_S <= int(first[8].removesuffix(" s")) <= AGE_S + 60
    assert page.value("[...document.querySelectorAll('meter')].map(one => one.value)") == [7.5, 2.5]
    assert page.table(1)[0][:3] == ["app/web", "quiet", "2"]
    assert page.problems == []


def test_the_status_page_has_its_style(page: Page, pages: Pages) -> None:
    """The Content-Security-Policy of the page allows its own style, and nothing else."""
    page.open(f"{pages.status}/")
    assert page.value("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
    page.value("document.body.appendChild(document.createElement('script')).text = 'document.title = \"executed\"'")
    assert page.value("document.title") == "Scheduler extender"
    assert any("Content Security Policy" in problem for problem in page.problems)


def test_the_status_page_refreshes_itself(page: Page, pages: Pages) -> None:
    page.open(f"{pages.status}/status")
    pages.set_load(node_a=9.5, node_b=1.5)
    deadline_s = time.monotonic() + REFRESHES_WITHIN_S
    while page.table()[0][0] != "node-b":
        assert time.monotonic() < deadline_s
        page.wait_load(page.loads)
    assert [row[7] for row in page.table()] == ["1.5", "9.5"]
    assert page.problems == []


def test_a_broken_file_is_visible_at_the_top_and_disappears_after_the_repair(page: Page, pages: Pages) -> None:
    page.open(f"{pages.status}/status")
    assert page.value(ALERTS) == []
    text = pages.file.read_text()
    pages.file.write_text(text.replace("best: 0", "best: low"))
    wait_for(lambda: b"cannot be used" in ask(pages.status.removeprefix("http://"), "GET", "/readyz"))
    page.open(f"{pages.status}/status")
    (shown,) = page.value(ALERTS)
    assert shown.startswith("FILE cannot be used: ") and " Since 20" in shown
    assert "line 8, profiles.quiet.agents[0].args.best is 'low': it must be a number" in shown
    assert page.value(f"{ALERT}.getBoundingClientRect().top < document.querySelector('table').getBoundingClientRect().top")
    assert page.value(f"getComputedStyle({ALERT}).borderLeftStyle") == "solid"
    assert page.table()[0][0] == "node-a", "the previous settings are in use"
    pages.file.write_text(text)
    deadline_s = time.monotonic() + REFRESHES_WITHIN_S
    while page.value(ALERTS):
        assert time.monotonic() < deadline_s
        page.wait_load(page.loads)
    assert page.problems == []


def test_hostile_names_are_text(page: Page, pages: Pages) -> None:
    pages.ask_about(HOSTILE)
    pages.prometheus.vectors["load"].append(({"instance": HOSTILE}, "5"))
    pages.prometheus.vectors[TIMES].append(({"instance": HOSTILE}, str(NOW_S)))
    wait_for(lambda: b"onerror" in ask(pages.status.removeprefix("http://"), "GET", "/status?format=html"))
    for path in ("/status", f"/explain?pod={quote(f'app/{HOSTILE}')}", f"/explain?pod={quote(f'unknown/{HOSTILE}')}"):
        page.open(pages.status + path)
        assert HOSTILE in page.text()
        assert page.value("document.images.length + document.scripts.length") == 0
        assert page.value("document.title") != "executed"
        assert [problem for problem in page.problems if "404" not in problem] == []


def test_the_page_of_a_pod_is_reached_from_the_status_page(page: Page, pages: Pages) -> None:
    pages.ask_about("web")
    page.open(f"{pages.status}/status")
    before = page.loads
    page.value("document.querySelector('a[href^=\"explain\"]').click()")
    page.wait_load(before)
    assert page.value("document.querySelector('h1').innerText") == "Pod app/web, profile quiet"
    columns = page.value("[...document.querySelectorAll('th')].map(one => one.innerText)")
    assert {"Node", "Score", "Points", "Agent", "Value", "Age", "Explanation"} <= set(columns)
    assert [(row[columns.index("Node")], row[columns.index("Value")]) for row in page.table()] == [("node-a", "2.5"), ("node-b", "7.5")]
    assert "score × extender weight × 10" in page.text()
    assert page.problems == []
