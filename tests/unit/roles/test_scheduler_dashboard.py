# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Grafana dashboard of the role extended_scheduler: valid expressions, and each metric of the extender.

``tests/integration/roles/test_extended_scheduler_rights.py`` compares the names with those that the real programs serve.
"""

from __future__ import annotations

import logging

import promql_parser
import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.request_times import PREFIX

from tests.unit.roles.scheduler_dashboard import DASHBOARD, expressions, metrics_and_labels, panels


@pytest.mark.parametrize("expression", expressions())
def test_each_expression_is_valid(expression: str) -> None:
    promql_parser.parse(expression)


def test_panels_have_different_numbers_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    places: set[tuple[int, int]] = set()
    for panel in panels():
        grid = panel["gridPos"]
        own = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not own & places and grid["x"] + grid["w"] <= 24, panel["title"]
        places |= own


def test_the_dashboard_shows_each_metric_of_the_extender() -> None:
    registry = Metrics(Log(logging.getLogger("extender"))).registry
    known = {family.name for family in registry.collect() if family.name.startswith(PREFIX)}
    shown = {name.removesuffix("_bucket").removesuffix("_total") for name, _labels in metrics_and_labels() if name.startswith(PREFIX)}
    assert shown == known


def test_every_panel_uses_the_chosen_data_source() -> None:
    for panel in panels():
        sources = [panel.get("datasource"), *(target["datasource"] for target in panel.get("targets", []))]
        assert all(source["uid"] == "${datasource}" for source in sources if source), panel["title"]
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "profile"]
