# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards have the fields of Grafana's own types, with values of the right kinds."""

from __future__ import annotations

import copy
from typing import Any

from tests.monitoring_queries import DASHBOARDS, load
from tools import grafana_schema


def broken(dashboard: dict[str, Any]) -> dict[str, Any]:
    """The dashboard with a mistake of each sort: unknown fields, a wrong value, a wrong type and a missing field."""
    made = copy.deepcopy(dashboard)
    made["refreshInterval"] = "30s"
    series = [panel for panel in made["panels"] if panel["type"] == "timeseries"]
    series[0]["options"]["legend"]["displayMode"] = "lists"
    series[1]["fieldConfig"]["defaults"]["custom"]["lineWidth"] = "1"
    series[2]["options"]["legnd"] = {}
    del series[3]["options"]["tooltip"]
    return made


def test_the_dashboards_have_the_types_of_grafana_and_mistakes_are_found() -> None:
    given = {file.name: load(file) for file in DASHBOARDS}
    (wrong,) = (broken(load(file)) for file in DASHBOARDS if file.stem == "scheduler")

    found = grafana_schema.violations({**given, "broken": wrong})

    assert [line for line in found if not line.startswith("broken")] == []
    for mistake in ("refreshInterval", '"lists"', "Type 'string' is not assignable to type 'number'", "legnd", "tooltip"):
        assert any(mistake in line for line in found), (mistake, found)
