# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rulebook of Event-Driven Ansible reacts to alerts that exist, and runs playbooks that exist with variables that they have.

``tests/integration/eda`` runs it with the real ansible-rulebook.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.monitoring_queries import RULES as ALERT_RULES
from tools import tables
from tools.paths import ROOT

RULEBOOK = ROOT / "extensions" / "eda" / "rulebooks" / "alerts.yml"
((RULESET,),) = (yaml.safe_load(RULEBOOK.read_text()),)
RULES: list[dict[str, Any]] = RULESET["rules"]
ALERTS = {rule["alert"]: rule for rule in ALERT_RULES}
CASES = ROOT / "tests" / "integration" / "monitoring" / "alerts_test.yml"
COLLECTION = "onprem.kube_scheduling."


def alert_of(rule: dict[str, Any]) -> str:
    (name,) = re.findall(r'event\.labels\.alertname == "(\w+)"', rule["condition"])
    return str(name)


def labels_of(alert: str) -> set[str]:
    """Return the labels that the alert has in each case of promtool."""
    checks = [check for case in yaml.safe_load(CASES.read_text())["tests"] for check in case["alert_rule_test"]]
    found = [set(fired["exp_labels"]) for check in checks if check["alertname"] == alert for fired in check["exp_alerts"]]
    return set.intersection(*found)


def test_a_rule_takes_only_an_alert_that_exists_and_still_fires() -> None:
    for rule in RULES:
        assert rule["condition"].startswith('event.status == "firing" and '), rule["name"]
        assert alert_of(rule) in ALERTS, rule["name"]


def test_a_rule_runs_at_most_once_for_each_value_of_a_label_that_its_alert_has() -> None:
    for rule in RULES:
        assert set(rule["throttle"]) == {"once_within", "group_by_attributes"}, rule["name"]
        used = {*rule["throttle"]["group_by_attributes"], *re.findall(r"{{ (event\.labels\.\w+) }}", str(rule["action"]))}
        assert {name.removeprefix("event.labels.") for name in used} <= labels_of(alert_of(rule)), rule["name"]


def test_a_label_is_passed_on_only_if_the_whole_of_it_is_a_name() -> None:
    """Ansible runs templates in variables, and a client that pushes metrics can write labels."""
    passed_on = [(rule, name) for rule in RULES for name in re.findall(r"{{ (event\.labels\.\w+) }}", str(rule["action"]))]
    assert passed_on
    for rule, name in passed_on:
        (pattern,) = re.findall(rf'{re.escape(name)} is match\("([^"]+)"\)', rule["condition"])
        assert re.match(pattern, "shop-1")
        assert [text for text in ("{{ 1 }}", "shop{{ 1 }}", "shop\n{{ 1 }}", "shop {% if x %}", "") if re.match(pattern, text)] == []


def test_the_action_is_a_playbook_of_the_collection_with_its_own_variables() -> None:
    for rule in RULES:
        ((kind, action),) = rule["action"].items()
        name = action["name"].removeprefix(COLLECTION)
        assert kind == "run_playbook" and action["name"] == COLLECTION + name
        assert (ROOT / "playbooks" / f"{name}.yml").exists(), rule["name"]
        variables = action.get("extra_vars", {})
        declared = {"verify": "site"}.get(name, name)
        assert not variables or set(variables) <= set(tables.variables(declared)[f"__{declared}_argument_spec"]), rule["name"]


def test_the_webhook_needs_a_token_and_listens_on_the_loopback_address_by_default() -> None:
    (source,) = RULESET["sources"]
    webhook = source["eda.builtin.webhook"]
    assert webhook["token"] == "{{ kube_scheduling_token | string }}" and "default('127.0.0.1')" in webhook["host"]
