# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``network_traffic``, and nodes with traffic for it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.bandwidth import SPEED_METRIC
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Gauge, Judgement, NodeView, PodView, Rate, Series

from tests.unit.services.extender.agents.views import agent, node, series

GBIT = 125e6
"""Bytes per second of 1 Gbit/s."""
MBIT = GBIT / 1000


def traffic_agent(**args: t.Any) -> Agent:
    return agent("network_traffic", **{"device": "eth.*|bond.*|br.*", **args})


def measured(
    of: Agent,
    name: str,
    receive: dict[str, float],
    *,
    transmit: dict[str, float] | None = None,
    speed: dict[str, float] | None = None,
    properties: Mapping[str, Mapping[str, float]] | None = None,
    age_s: float | None = 5.0,
    pods: tuple[PodView, ...] = (),
) -> NodeView:
    """A node with rates in bytes per second by device, and the other gauges of its devices by metric."""
    values: dict[t.Any, list[Series]] = {}
    for query in of.queries:
        by_device: Mapping[str, float] = receive
        if isinstance(query, Gauge):
            by_device = (speed or {}) if query.metric == SPEED_METRIC else (properties or {}).get(query.metric, {})
        elif isinstance(query, Rate) and "transmit" in query.metric:
            by_device = transmit or {}
        values[query] = [series(value, age_s=age_s, device=device) for device, value in by_device.items()]
    return node(name, values, pods=pods)


def bytes_of(judgement: Judgement) -> float:
    """Return the rate of a judgement in bytes per second, which is the unit of the counters."""
    assert judgement.value is not None
    return judgement.value / 8
