# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files in deploy/monitoring agree with each other, with the guide, and with the objects of the roles.

``tests/integration/monitoring`` compares their metrics with those of the real programs, and runs their queries.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rebalance_metrics import rebalance_gauges
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics as ExtenderMetrics
from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics as RescuerMetrics

from tests.monitoring_queries import DASHBOARDS, RULES, Query, alert_queries, load, metrics_of, panel_queries
from tests.style.sources import report
from tools.paths import ROOT
from tools.rendered_base import ALERTS, BASE, PROMETHEUS_RULE, prometheus_rule

GUIDE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
QUERIES = [*alert_queries(), *(query for file in DASHBOARDS for query in panel_queries(file))]
PREFIX = "kube_scheduling_"
each_dashboard = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)


def test_the_prometheus_rule_has_the_same_alerts() -> None:
    assert PROMETHEUS_RULE.read_text() == prometheus_rule(ALERTS.read_text()), "run `make deploy`"
    rendered, plain = yaml.safe_load(PROMETHEUS_RULE.read_text()), yaml.safe_load(ALERTS.read_text())
    assert (rendered["kind"], rendered["spec"]) == ("PrometheusRule", plain)


def test_each_alert_has_a_severity_two_texts_and_a_section_of_the_guide() -> None:
    for rule in RULES:
        assert rule["labels"] in ({"severity": "warning"}, {"severity": "critical"}), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, rule["alert"]
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/docs/monitoring.md") and anchor == rule["alert"].lower()


def test_the_guide_describes_each_alert_in_the_order_of_the_file() -> None:
    assert re.findall(r"^### (KubeScheduling\w+)$", GUIDE, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_the_alert_about_the_cronjob_names_the_cronjob_of_the_role() -> None:
    name = yaml.safe_load((BASE / "rebalancer-cronjob.yaml").read_text())["metadata"]["name"]
    (rule,) = (rule for rule in RULES if rule["alert"] == "KubeSchedulingCronJobNotRun")
    assert f'cronjob="{name}"' in rule["expr"]


def test_each_query_is_valid() -> None:
    report(f"{query.place}: {error}" for query in QUERIES if (error := syntax_error(query)))


def syntax_error(query: Query) -> str:
    try:
        promql_parser.parse(query.expression)
    except ValueError as error:
        return str(error)
    return ""


def test_the_dashboards_show_each_metric_of_the_programs() -> None:
    registries = (ExtenderMetrics(Log(logging.getLogger("extender"))).registry, RescuerMetrics().registry)
    served = {family.name for registry in registries for family in registry.collect()}
    check = {"summary": {"checked": 0}}
    served |= {gauge.name for gauge in rebalance_gauges(check, now_s=0)}
    shown = {name for file in DASHBOARDS for query in panel_queries(file) for name, _labels in metrics_of(query.expression)}
    own = {name.removesuffix("_bucket").removesuffix("_total") for name in shown if name.startswith(PREFIX)}
    assert own == {name for name in served if name.startswith(PREFIX)}


@each_dashboard
def test_panels_have_different_numbers_and_do_not_overlap(file: Path) -> None:
    panels = load(file)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        own = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not own & places and grid["x"] + grid["w"] <= 24, panel["title"]
        places |= own


@each_dashboard
def test_each_panel_has_a_description_a_unit_and_the_chosen_data_source(file: Path) -> None:
    dashboard = load(file)
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    assert dashboard["uid"] == f"kube-scheduling-{file.stem}" and len(dashboard["uid"]) <= 40
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources), panel["title"]
        assert panel["type"] != "stat" or len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1, panel["title"]


@each_dashboard
def test_each_legend_has_only_labels_that_its_query_returns(file: Path) -> None:
    for panel in load(file)["panels"]:
        for target in panel.get("targets", []):
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = {label.strip() for found in re.findall(r"\bby \(([^)]*)\)", target["expr"])[:1] for label in found.split(",")}
            assert labels <= grouped, f"{panel['title']}: {target['legendFormat']}"


def test_kustomize_gets_each_file_of_the_folder() -> None:
    folder = BASE / "monitoring"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    named = {*kustomization["resources"], *(entry.partition("=")[2] for entry in generated["files"])}
    assert named == {file.name for file in folder.iterdir()} - {"alerts.yml", "kustomization.yaml"}
