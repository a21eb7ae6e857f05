# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts of deploy/monitoring, tested by promtool with the cases of alerts_test.yml."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from lab import binaries
from tools.rendered_base import ALERTS

CASES = Path(__file__).with_name("alerts_test.yml")
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> str:
    done = subprocess.run([str(binaries.promtool()), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_has_nothing_to_say_about_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))


def test_alerts_fire_and_stay_silent_as_the_cases_say() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(CASES))


@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_each_alert_has_a_case_in_which_it_fires_and_a_normal_state_in_which_it_does_not(alert: str) -> None:
    checks = [check for case in yaml.safe_load(CASES.read_text())["tests"] for check in case["alert_rule_test"]]
    fires = {bool(check["exp_alerts"]) for check in checks if check["alertname"] == alert}
    assert fires == {True, False}, f"{alert} needs both in {CASES.name}"
