# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages and the JSON show the unit of each value."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.http.pages import html
from ansible_collections.onprem.kube_scheduling.services.extender.interface import NodeView, Series

from tests.unit.services.extender.extender_objects import ScoreAgent, names_body, profile, view
from tests.unit.services.extender.http.client import Client


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bit/s", "–"),
        (0.0, "bit/s", "0.0 bit/s"),
        (9999.0, "bit/s", "9999.0 bit/s"),
        (10_000.0, "bit/s", "10 kbit/s"),
        (1.25e9, "bit/s", "1.25 Gbit/s"),
        (1.25e9, "", "1.25 G"),
        (0.0042, "", "0.0042"),
        (2.5, "<b>", "2.5 &lt;b&gt;"),
    ],
)
def test_a_number_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert html.number(value, unit=unit) == text


def test_agents_with_a_unit() -> None:
    assert build_agent("network_traffic").value_unit == "bit/s"
    assert build_agent("metric", {"query": "temperature", "best": 20, "worst": 80, "unit": "°C"}).value_unit == "°C"
    assert build_agent("pigeon").value_unit == ""


def test_the_value_of_network_traffic_has_the_unit_of_its_explanation() -> None:
    agent = build_agent("network_traffic")
    rate, speed, *_properties = agent.queries
    labels = {"device": "eth0"}
    found = NodeView("a", series={rate: (Series(labels, 25e6, 1.0),), speed: (Series(labels, 125e6, 1.0),)})
    judgement = agent.judge(agent.prepare([found], 1.0), found, None, 1.0)
    assert html.number(judgement.value, unit=agent.value_unit) == "200 Mbit/s"
    assert judgement.explanation.startswith("20% of 1 Gbit/s on eth0")


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
