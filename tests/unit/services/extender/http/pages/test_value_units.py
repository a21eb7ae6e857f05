# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages and the JSON show the unit of each value."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.http.pages import html

from tests.unit.services.extender.extender_objects import ScoreAgent, names_body, profile, view
from tests.unit.services.extender.http.client import Client


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "B/s", "–"),
        (0.0, "B/s", "0.0 B/s"),
        (9999.0, "B/s", "9999.0 B/s"),
        (10_000.0, "B/s", "10 kB/s"),
        (1.25e9, "B/s", "1.25 GB/s"),
        (1.25e9, "", "1.25 G"),
        (0.0042, "", "0.0042"),
        (2.5, "<b>", "2.5 &lt;b&gt;"),
    ],
)
def test_a_number_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert html.number(value, unit=unit) == text


def test_agents_with_a_unit() -> None:
    assert build_agent("network_traffic").value_unit == "B/s"
    assert build_agent("metric", {"query": "temperature", "best": 20, "worst": 80, "unit": "°C"}).value_unit == "°C"
    assert build_agent("pigeon").value_unit == ""


def test_pages_and_json_have_the_unit() -> None:
    class Speed(ScoreAgent):
        value_unit = "m/s"

    client = Client(profile(Speed()))
    client.engine.on_view(view({"a": 6.0}))
    client.post("/scheduler/prioritize", names_body(["a"]))
    for target in ("/status", "/explain?pod=app/web"):
        assert '<td class="n">6.0 m/s</td>' in client.get(target, accept="text/html").text
    row = client.get("/explain?pod=app/web").json["nodes"][0]["agents"][0]
    assert (row["value"], row["unit"]) == (6.0, "m/s")
