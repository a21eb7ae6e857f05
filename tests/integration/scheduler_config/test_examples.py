# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kube-scheduler accepts each example after scheduler_profile has converted it and added a profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_plan import plan_profile

from lab import binaries
from tests.integration.kubernetes_version import VERSION
from tests.integration.scheduler_config.scheduler_program import ask, existing_files
from tests.unit.scheduler_config.configurations import EXTENDER
from tests.unit.scheduler_config.example_configurations import EXAMPLES
from tests.unit.scheduler_config.test_profile_plan import DEFAULTS


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if not example.known_plugins])
def test_the_scheduler_accepts_the_example_with_another_profile(name: str, tmp_path: Path) -> None:
    options = {**DEFAULTS, "kubernetes_version": VERSION, "name": "another", "extenders": [EXTENDER]}
    connection = {"kubeconfig": existing_files(tmp_path)["kubeconfig"]}
    plan = plan_profile(EXAMPLES[name].text, {**options, "client_connection": connection}, name)
    assert plan.after is not None and yaml.safe_load(plan.after)["apiVersion"].endswith("/v1")
    answer = ask(str(binaries.ensure() / "kube-scheduler"), plan.after, tmp_path / "config.yaml")
    assert answer.accepted, answer.text
