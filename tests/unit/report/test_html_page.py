# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The HTML report as a file: its parts, its policy and its data. tests/browser/test_report.py shows it in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import typing as t
from html import unescape
from html.parser import HTMLParser

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.html_page import render_html
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.report_data import report_data
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report

from tests.unit.report.results import BERLIN, BERLIN_LINE, Json, check, data_of_page, even, nodes, piled, restart, workload

VOID_ELEMENTS = {"meta"}
TIME = "2026-01-31 08:15 UTC"


class Page(HTMLParser):
    """Collects elements and text, and refuses elements that are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _attributes in self.elements)


def render(before: t.Any, **options: t.Any) -> str:
    return render_html(build_report({"cluster": BERLIN, **before}, **options), time=TIME)


def run_on(node_list: list[Json], *, healthy: int = 0) -> tuple[Json, dict[str, t.Any]]:
    web = workload("web", piled(node_list, 4), "collapsed", restart_helps=True, advice=[{"reason": "code", "message": "do this"}])
    rest = [workload(f"fine-{number}", even(node_list, 3), "healthy") for number in range(healthy)]
    after = check([workload("web", even(node_list, 4), "healthy"), *rest], node_list)
    return check([web, *rest], node_list), {"after": after, "restart": restart(web)}


def test_the_page_has_the_data_of_the_report() -> None:
    before, options = run_on(nodes(4), healthy=1)
    data = data_of_page(render(before, **options))
    assert data == report_data(build_report({**before, "cluster": BERLIN}, **options), time=TIME)
    (web, fine) = data["workloads"]
    assert (web["before"]["verdict"], web["after"]["verdict"], web["action"], web["outcome"]) == (
        "collapsed",
        "healthy",
        "restarted",
        "improved",
    )
    assert web["before"]["domains"] == piled(nodes(4), 4) and web["after"]["domains"] == even(nodes(4), 4)
    assert (web["unremarkable"], fine["unremarkable"]) == (False, True)
    assert data["domain_list"][0] == {"name": "worker-1", "zone": "zone-1", "ready": True, "schedulable": True}


def test_patches_are_in_the_data_and_readable_without_the_script() -> None:
    patch = {"spec": {"template": {"spec": {"topologySpreadConstraints": [{"topologyKey": HOSTILE}]}}}}
    advice = [{"reason": "no_spreading_rule", "message": "do this", "patch": patch}, {"reason": "other", "message": "or that", "patch": {}}]
    html = render(check([workload("web", piled(nodes(2), 2), "collapsed", advice=advice)], nodes(2)))
    assert data_of_page(html)["workloads"][0]["advice"] == advice
    shown = re.findall(r'<pre class="patch">(.*?)</pre>', html, re.DOTALL)
    assert [json.loads(unescape(text)) for text in shown] == [patch]
    assert "<h2>Patch of Deployment shop/web: no_spreading_rule</h2>" in html


def test_only_the_style_and_the_script_of_the_page_are_allowed() -> None:
    html = render({**run_on(nodes(4))[0], "cluster": {"name": "berlin"}})
    page = Page(html)
    (policy,) = (attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    for directive, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert page.count("script") == 2
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_the_page_loads_nothing() -> None:
    html = render({**run_on(nodes(4))[0], "cluster": {"name": "berlin"}})
    assert not re.search(r"\bsrc=|url\(|@import|\bimport\b|fetch\(|XMLHttpRequest|https?:|innerHTML|insertAdjacent|\beval\b", html)


def test_without_scripts_the_map_is_there_as_text() -> None:
    before, options = run_on(nodes(4))
    text = Page(render(before, **options)).texts["pre"]
    assert "deploy shop/web       4→1       ·→1       ·→1       ·→1  collapsed → healthy" in text


HOSTILE = "</script><script>alert(1)</script><!--<script><img src=x onerror=alert(1)>&\"'${x}\u2028\ud800"


@pytest.mark.parametrize(
    ("before", "options"),
    [
        (
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
                        advice=[{"reason": HOSTILE, "message": HOSTILE, "patch": {HOSTILE: [HOSTILE]}}],
                    ),
                    workload("b", {"b": 1}, "collapsed", blockers=[{"reason": HOSTILE, "message": HOSTILE, "nodes": 1}]),
                ],
                [{"name": HOSTILE, "hostname": HOSTILE, "zone": HOSTILE, "ready": True, "schedulable": False}],
                skipped_namespaces=[{"namespace": HOSTILE, "reason": HOSTILE, "message": HOSTILE}],
                skipped_objects=[{"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE, "reason": HOSTILE, "message": HOSTILE}],
            ),
            {"error": HOSTILE},
        ),
        (check([], nodes(1), reason=HOSTILE, message=HOSTILE), {}),
        ({"cluster": {"name": HOSTILE}}, {"error": HOSTILE}),
    ],
    ids=["workloads", "reason", "cluster"],
)
def test_no_text_from_the_cluster_is_markup(before: Json, options: dict[str, t.Any]) -> None:
    html = render(before, **options)
    page = Page(html)
    assert (page.count("script"), page.count("img")) == (2, 0)
    assert html.count("<!--") == 1, "only the comment of the template"
    assert html.encode("utf-8")
    found = data_of_page(html)
    assert HOSTILE in (found["error"], found["reason"]), "the data have the text unchanged"


def test_a_sign_of_the_template_in_a_name_is_text() -> None:
    assert data_of_page(render({"cluster": {"name": "$data $$ ${script}"}}))["cluster"]["name"] == "$data $$ ${script}"


def test_the_title_and_the_line_below_it() -> None:
    page = Page(render(check([workload("web", even(nodes(1), 1), "healthy")], nodes(1))))
    assert page.texts["title"] == page.texts["h1"] == f"Spread of workloads: {BERLIN_LINE}"
    assert page.texts["p"] == f"{TIME} · 1 node, 1 ready, 1 open to these workloads · 1 namespace · by kubernetes.io/hostname"
    assert Page(render({"cluster": {}}, error="no answer")).texts["title"] == "Spread of workloads"


def test_a_large_run_makes_a_file_that_a_mail_can_have() -> None:
    before, options = run_on(nodes(30, zones=3), healthy=200)
    assert len(render(before, **options)) < 500_000


@pytest.mark.parametrize(("all_listed", "expected"), [(False, 300), (True, 1)])
def test_nodes_without_replicas_are_in_the_data_if_the_check_does_not_list_them(all_listed: bool, expected: int) -> None:
    """The check of a big cluster lists only domains with replicas. Empty zones are the places to which replicas can be moved."""
    eligible = {"kubernetes.io/hostname": 1 if all_listed else 300}
    web = workload("web", {"worker-1": 4}, "collapsed", eligible_domains=eligible)
    data = report_data(build_report(check([web], nodes(300, zones=3))))
    assert len(data["domain_list"]) == expected
    assert data["workloads"][0]["before"]["all_listed"] is all_listed
