# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The summary in Markdown: its content, and that no text from a cluster has an effect in it."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.markdown import render_markdown
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report
from markdown_it import MarkdownIt

from tests.unit.report.results import BERLIN, HOST, Json, check, even, nodes, piled, restart, workload
from tests.unit.report.test_text_map import run_on


def summary(before: t.Any, *, max_rows: int = 20, **options: t.Any) -> str:
    return render_markdown(build_report({"cluster": BERLIN, **before}, **options), max_rows=max_rows)


def as_html(text: str) -> str:
    """The HTML that a chat or a ticket shows."""
    html: str = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    return html


def test_a_run_is_summarized() -> None:
    before, options = run_on(nodes(4), healthy=3)
    assert (
        summary(before, **options)
        == """\
### Spread of workloads: berlin (context admin, https://10.0.0.10:6443)

5 workloads in 1 namespace, 4 nodes. Collapsed 2→1, skewed 0, restarted 1 (improved 1), refused 0, failed 0.

| workload | replicas | fullest node | state |
| --- | ---: | --- | --- |
| Deployment shop/web | 4 | 4 on worker-1 → 1 on worker-1 and 3 more | collapsed → healthy |
| Deployment shop/big | 2 | 2 on worker-1 | collapsed, stays |

Not listed: 3 healthy or skipped.

**Reasons**

- shop/big: Insufficient memory (2 nodes)
"""
    )


def test_a_check_says_of_which_workloads_a_restart_helps() -> None:
    before, _options = run_on(nodes(4))
    text = summary(before)
    assert "Collapsed 2, skewed 0, healthy 0, skipped 0." in text
    assert "| Deployment shop/web | 4 | 4 on worker-1 | collapsed, a restart helps |" in text


def test_the_first_patches_are_blocks_of_code_that_no_name_ends() -> None:
    patch = {"spec": {"template": {"metadata": {"labels": {"a": "```\n@all <!channel> &"}}}}}
    advice = [{"reason": "no_spreading_rule", "message": "add it", "patch": patch}, {"reason": "x", "message": "or decide", "patch": {}}]
    entries = [workload(f"web-{number}", piled(nodes(4), 2), "collapsed", advice=advice) for number in range(5)]
    text = summary(check(entries, nodes(4)))
    blocks = [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert [json.loads(block) for block in blocks] == [patch] * 3
    assert "**Patch of Deployment shop/web-0** (no\\_spreading\\_rule)\n\n```json\n{\n" in text
    assert text.count("```") == 6 and "@" not in text and "<" not in text
    assert "\nNot listed: 2 more. " in text


def test_a_plan_and_an_error_are_marked() -> None:
    before, _options = run_on(nodes(4))
    web = before["workloads"][0]
    planned = restart(web, action="would_restart", outcome="pending", expected={HOST: even(nodes(4), 4)})
    shown = summary(before, restart=planned, plan=True)
    assert "**Plan.** Nothing was restarted." in shown
    assert "| 4 | 4 on worker-1 → \\~1 on worker-1 and 3 more | collapsed, would\\_restart |" in shown
    assert (
        summary({"cluster": {"name": "berlin"}}, error="cannot reach it")
        == "### Spread of workloads: berlin\n\n**Error:** cannot reach it\n"
    )


def test_of_many_workloads_some_are_counted() -> None:
    node_list = nodes(4)
    entries = [workload(f"w{number:02d}", piled(node_list, 2), "collapsed") for number in range(30)]
    text = summary(check(entries, node_list), max_rows=5)
    assert text.count("| Deployment ") == 5 and "Not listed: 25 more workloads with problems or changes." in text


def test_without_workloads_the_reason_is_given() -> None:
    text = summary(check([], nodes(1), reason="too_few_ready_nodes", message="there is 1 node"))
    assert "0 workloads in 1 namespace, 1 node. No workload was checked: there is 1 node." in text and "|" not in text


@pytest.mark.parametrize(
    "hostile",
    [
        "a | b || c",
        "<img src=x onerror=alert(1)> <!-- <script>alert(1)</script>",
        "[text](javascript:alert(1)) ![image](http://example.com/x.png)",
        "**bold** _italic_ ~~struck~~ `code` # title",
        "line\n\n# title\n\n- item\r\n> quote",
        "&lt;b&gt; &#64; \\| \\",
    ],
)
def test_no_text_from_the_cluster_is_markup(hostile: str) -> None:
    node_list = nodes(2)
    entry = workload(hostile, {hostile: 2}, "collapsed", blockers=[{"reason": "x", "message": hostile, "nodes": 0}])
    more: Json = {"skipped_namespaces": [{"namespace": hostile, "reason": "unreadable", "message": hostile}]}
    html = as_html(summary(check([entry], node_list, cluster={"name": hostile}, **more), error=hostile))
    plain = as_html(
        summary(
            check(
                [workload("a", {"a": 2}, "collapsed", blockers=[{"reason": "x", "message": "a", "nodes": 0}])],
                node_list,
                skipped_namespaces=[{"namespace": "a", "reason": "unreadable", "message": "a"}],
                cluster={"name": "a"},
            ),
            error="a",
        )
    )
    assert tags(html) == tags(plain)


def tags(html: str) -> list[str]:
    """The elements of HTML in their order."""
    from html.parser import HTMLParser

    found: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, _attributes: t.Any) -> None:
            found.append(tag)

        def handle_comment(self, data: str) -> None:
            found.append("comment")

    Tags().feed(html)
    return found


def test_nobody_is_mentioned() -> None:
    entry = workload("web", even(nodes(2), 2), "unknown", message="ask @admins")
    assert "@admins" not in summary(check([entry], nodes(2)), error="ask @admins")
