# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The HTML report: its data, and the page that the template makes of them."""

from __future__ import annotations

import re
import typing as t
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.html_page import build_page
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report

from tests.unit.report.results import Json, check, even, nodes, piled, restart, workload

TEMPLATES = Path(__file__).parents[3] / "playbooks" / "templates"
VOID_ELEMENTS = {"meta"}


class Page(HTMLParser):
    """Collects elements and text, and refuses elements that are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(" ".join(data.split()))

    def count(self, tag: str, **attributes: str) -> int:
        return sum(name == tag and all(found.get(key) == value for key, value in attributes.items()) for name, found in self.elements)


def page_data(before: t.Any, **options: t.Any) -> Json:
    return build_page(build_report(before, cluster="berlin", **options))


def render(data: Json) -> str:
    """As ansible.builtin.template does it: without autoescaping."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False
    )
    return environment.get_template("rebalance_report.html.j2").render(
        __rebalance_report=data, now=lambda **_options: "2026-01-31 08:15 UTC"
    )


def spread_run(node_list: list[Json], *, healthy: int = 0) -> Json:
    web = workload("web", piled(node_list, 4), "collapsed", restart_helps=True, advice=[{"reason": "code", "message": "do this"}])
    rest = [workload(f"fine-{number}", even(node_list, 3), "healthy") for number in range(healthy)]
    after = check([workload("web", even(node_list, 4), "healthy"), *rest], node_list)
    return page_data(check([web, *rest], node_list), after=after, restart=restart(web))


def test_a_restarted_workload_has_a_line_before_and_one_after() -> None:
    (section,) = spread_run(nodes(4))["sections"]
    (row,) = section["rows"]
    assert [(observation["when"], observation["verdict"]) for observation in row["observations"]] == [
        ("before", "collapsed"),
        ("after", "healthy"),
    ]
    assert [[cell["count"] for cell in observation["cells"]] for observation in row["observations"]] == [[4, 0, 0, 0], [1, 1, 1, 1]]
    assert [[cell["heat"] for cell in observation["cells"]] for observation in row["observations"]] == [[4, 0, 0, 0], [1, 1, 1, 1]]


def test_what_did_not_change_has_one_line() -> None:
    sections = spread_run(nodes(4), healthy=1)["sections"]
    assert [(section["name"], len(section["rows"][0]["observations"])) for section in sections] == [("busy", 2), ("quiet", 1)]


def test_nodes_become_zones_where_there_are_many() -> None:
    data = spread_run(nodes(5000, zones=10))
    assert (data["unit"], len(data["columns"]), data["fullest_column"]) == ("zone", 10, True)
    assert data["busiest"][0] == {"name": "worker-1", "before": 4, "after": 1}


def test_there_are_never_more_columns_than_asked_for() -> None:
    report = build_report(check([workload("web", even(nodes(400, zones=0), 400), "healthy")], nodes(400, zones=0)))
    data = build_page(report, max_columns=20)
    assert len(data["columns"]) == 20
    assert data["columns"][-1]["name"] == "381 others"
    assert sum(column["before"] for column in data["sums"]) == 400


def test_the_page_has_the_map_in_a_table_with_headers() -> None:
    page = Page(render(spread_run(nodes(4), healthy=2)))
    assert page.count("th", scope="colgroup") == 2 * 2
    assert page.count("th", scope="rowgroup") == 1 + 2 + 1
    assert page.count("caption") == 2
    assert {"web", "worker-1", "zone-1", "collapsed", "healthy", "restarted", "improved"} <= set(page.texts)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    html = render(spread_run(nodes(4)))
    assert Page(html).count("script") == 0
    assert not re.search(r"\b(src|href)=|url\(|@import|https?:", html)
    assert "default-src 'none'" in html


HOSTILE = "<img src=x onerror=alert(1)>&\"'"


@pytest.mark.parametrize(
    "data",
    [
        page_data(
            check(
                [
                    workload(
                        HOSTILE,
                        {HOSTILE: 2, "b": 0},
                        HOSTILE,
                        kind=HOSTILE,
                        namespace=HOSTILE,
                        reason=HOSTILE,
                        message=HOSTILE,
                        advice=[{"reason": HOSTILE, "message": HOSTILE}],
                    ),
                    workload("b", {"b": 1}, "collapsed", blockers=[{"reason": HOSTILE, "message": HOSTILE, "nodes": 1}]),
                ],
                [{"name": HOSTILE, "hostname": HOSTILE, "zone": HOSTILE, "ready": True, "schedulable": False}],
                skipped_namespaces=[{"namespace": HOSTILE, "reason": HOSTILE, "message": HOSTILE}],
                skipped_objects=[{"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE, "reason": HOSTILE, "message": HOSTILE}],
            ),
            error=HOSTILE,
        ),
        page_data(check([], nodes(1), reason=HOSTILE, message=HOSTILE)),
        build_page(build_report({}, cluster=HOSTILE, error=HOSTILE)),
    ],
    ids=["workloads", "reason", "cluster"],
)
def test_texts_from_the_cluster_are_escaped(data: Json) -> None:
    html = render(data)
    assert Page(html).count("img") == 0
    assert HOSTILE not in html
    assert "&lt;img" in html


def test_a_plan_is_marked() -> None:
    node_list = nodes(3)
    web = workload("web", piled(node_list, 3), "collapsed", restart_helps=True)
    page = Page(render(page_data(check([web], node_list), restart=restart(web), plan=True)))
    assert page.count("p", **{"class": "banner plan"}) == 1
    assert "to restart" in page.texts
    assert "improved" not in page.texts


@pytest.mark.parametrize(
    ("data", "banner"),
    [
        (page_data({}, error="cannot reach it"), "banner bad"),
        (page_data(check([], nodes(1), reason="too_few_ready_nodes: 1 node")), "banner"),
    ],
)
def test_errors_and_reasons_stand_on_top(data: Json, banner: str) -> None:
    assert Page(render(data)).count("p", **{"class": banner}) == 1


def test_a_large_run_makes_a_page_that_a_browser_can_take() -> None:
    html = render(spread_run(nodes(30, zones=3), healthy=200))
    Page(html)
    assert len(html) < 500_000


def test_one_of_a_thing_is_not_called_by_its_plural() -> None:
    html = render(page_data(check([workload("web", even(nodes(1), 1), "healthy")], nodes(1))))
    assert "1 node," in html and "1 namespace " in html and "1 workload<" in html
    assert not re.search(r"\b1 (nodes|namespaces|workloads|pods)\b(?! checked)", html)


def test_nodes_that_became_not_ready_are_named_in_a_banner() -> None:
    later = nodes(2)
    later[1]["ready"] = False
    entry = workload("web", even(later, 2), "healthy")
    html = render(page_data(check([entry], nodes(2)), after=check([entry], later)))
    assert "Not ready at the end of the run:</strong> worker-2" in html
    assert 'class="node closed"' in html
