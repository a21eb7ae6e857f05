# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each output names the cluster at its beginning: name, context and API server. A result of an older version has no cluster."""

from __future__ import annotations

import io
import json
import re
import typing as t
from collections.abc import Callable

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.filter.rescue_plan import rescue_plan
from ansible_collections.onprem.kube_scheduling.plugins.filter.rescue_totals import rescue_totals
from ansible_collections.onprem.kube_scheduling.plugins.filter.spread_html import spread_html
from ansible_collections.onprem.kube_scheduling.plugins.filter.spread_map import spread_map
from ansible_collections.onprem.kube_scheduling.plugins.filter.spread_markdown import spread_markdown
from ansible_collections.onprem.kube_scheduling.plugins.filter.spread_report import spread_report
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.output import write_result

from tests.unit.report.results import BERLIN, BERLIN_LINE, Json, check, even, nodes, workload


def spread(cluster: Json) -> Json:
    return check([workload("web", even(nodes(2), 2), "healthy")], nodes(2), **cluster)


def rescue(cluster: Json) -> Json:
    return {"pods": [], "released": [], "skipped_objects": [], **cluster}


def kubectl(form: str) -> Callable[[Json], str]:
    def written(cluster: Json) -> str:
        output = io.StringIO()
        write_result(spread(cluster), form, environment={}, output=output)
        return output.getvalue()

    return written


def heading(html: str) -> str:
    found = re.search(r"<h1>(.*)</h1>", html)
    assert found and found[1] in html.partition("</title>")[0]
    return found[1]


OF_PEOPLE: dict[str, Callable[[Json], str]] = {
    "spread_map": lambda cluster: spread_map(spread(cluster)),
    "spread_map, plan": lambda cluster: spread_map(spread(cluster), plan=True),
    "spread_map, error": lambda cluster: spread_map(cluster, error="no answer"),
    "spread_markdown": lambda cluster: spread_markdown(spread(cluster)),
    "spread_html": lambda cluster: heading(spread_html(spread(cluster))),
    "rescue_plan": lambda cluster: rescue_plan(rescue(cluster), plan=True),
    "rescue_plan, error": lambda cluster: rescue_plan({**cluster, "failed": True, "msg": "no answer"}),
    **{f"kubectl spread {form}": kubectl(form) for form in ("", "wide", "markdown")},
    "kubectl spread html": lambda cluster: heading(kubectl("html")(cluster)),
}
OF_PROGRAMS: dict[str, Callable[[Json], Json]] = {
    "spread_report": lambda cluster: spread_report(spread(cluster)),
    "totals of rebalance": lambda cluster: spread_report(spread(cluster))["totals"],
    "totals of a failed check": lambda cluster: spread_report(cluster, error="no answer")["totals"],
    "rescue_totals": lambda cluster: rescue_totals(rescue(cluster)),
    "kubectl spread json": lambda cluster: json.loads(kubectl("json")(cluster)),
    "kubectl spread yaml": lambda cluster: yaml.safe_load(kubectl("yaml")(cluster)),
}


@pytest.mark.parametrize("name", OF_PEOPLE)
def test_the_first_line_names_the_cluster(name: str) -> None:
    assert BERLIN_LINE in OF_PEOPLE[name]({"cluster": BERLIN}).splitlines()[0]


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_data_have_the_cluster(name: str) -> None:
    assert OF_PROGRAMS[name]({"cluster": BERLIN})["cluster"] == BERLIN


@pytest.mark.parametrize("name", [*OF_PEOPLE, *OF_PROGRAMS])
def test_a_result_without_a_cluster_is_shown_without_it(name: str) -> None:
    shown: t.Any = {**OF_PEOPLE, **OF_PROGRAMS}[name]({})
    assert not any((shown.get("cluster") or {}).values()) if isinstance(shown, dict) else shown.splitlines()[0].strip(" :()"), shown
