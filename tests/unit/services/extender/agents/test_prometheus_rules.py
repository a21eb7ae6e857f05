# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The recording rules are valid, and the agents can use them with the arguments that the file names."""

from __future__ import annotations

import re
import typing as t

import promql_parser
import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import VIRTUAL_DEVICES
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression

from tests.unit.services.extender.agents.views import agent
from tools.paths import ROOT

TEXT = (ROOT / "services" / "extender" / "prometheus_rules.yml").read_text(encoding="utf-8")
RULES: list[dict[str, str]] = [rule for group in yaml.safe_load(TEXT)["groups"] for rule in group["rules"]]
ARGS: dict[str, t.Any] = yaml.safe_load("\n".join(line.removeprefix("#") for line in TEXT.splitlines() if line.startswith("#   ")))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["record"])
def test_each_rule_is_valid(rule: dict[str, str]) -> None:
    promql_parser.parse(rule["expr"])
    promql_parser.parse(rule["record"])


@pytest.mark.parametrize("name", ["safe_overload", "safe_balance"])
def test_the_arguments_use_rules_that_exist(name: str) -> None:
    asked = {query.promql for query in agent(name, **ARGS).queries if isinstance(query, Expression)}
    recorded = {rule["record"] for rule in RULES}
    used = {text for text in asked if text.startswith("instance:")}
    assert len(used) == 4 and used <= recorded
    assert not [text for text in asked if "over_time" in text]


def test_rules_follow_those_that_they_use() -> None:
    known: set[str] = set()
    for rule in RULES:
        assert {name for name in (one["record"] for one in RULES) if name in rule["expr"]} <= known
        known.add(rule["record"])


def test_the_recorded_network_rates_are_of_the_devices_that_the_agent_measures() -> None:
    network = [rule["expr"] for rule in RULES if "node_network_" in rule["expr"]]
    assert len(network) == 2
    for expression in network:
        assert "|".join(re.findall(r'device!~"(.*?)"', expression)) == VIRTUAL_DEVICES
