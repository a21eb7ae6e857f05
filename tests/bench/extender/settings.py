# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles that are measured, and the queries of their agents."""

from __future__ import annotations

from typing import Any

from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Query

Json = dict[str, Any]

PROFILE = "network-traffic"
DEVICES = ("eno1", "eno2")

TRAFFIC: Json = {"name": "network_traffic", "args": {"device": "eno.*", "direction": "both"}}
CONGESTION: Json = {"name": "congestion"}
THREE: list[Json] = [{"name": "safe_overload", "filter": True}, TRAFFIC, CONGESTION]
ALL: list[Json] = [
    *(one for one in THREE if one is not CONGESTION),
    # The nodes of the lab have no annotations.
    {"name": "congestion", "args": {"query": "node_congestion"}},
    {"name": "safe_balance"},
    {"name": "pigeon", "args": {"num_resources": 5}},
    {"name": "reward"},
    {"name": "metric", "args": {"query": "node_load1", "best": 0, "worst": 32}},
    {"name": "budgets"},
    {"name": "template"},
]


def settings(agents: list[Json], prometheus: str, kubeconfig: str, *, refresh_s: float) -> Json:
    """Return the settings of the extender without its addresses."""
    return {
        "sources": {"prometheus": {"urls": [prometheus], "refresh_s": refresh_s}, "kubernetes": {"kubeconfig": kubeconfig}},
        "profiles": {PROFILE: {"agents": agents}},
    }


def queries() -> list[Query]:
    """Return the queries of all agents, each once."""
    agents = [build_agent(one["name"], one.get("args")) for one in ALL]
    return list(dict.fromkeys(query for agent in agents for query in agent.queries))
