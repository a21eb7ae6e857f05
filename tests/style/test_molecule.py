# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each scenario of molecule has a test with its name, a time limit, and settings that isolate it."""

from __future__ import annotations

import inspect

import yaml

from lab.layout import check_cluster_name
from tests.molecule import test_scenarios
from tests.molecule.scenario import SCENARIOS, cluster_name, failed_hosts, scenarios
from tools.paths import ROOT

FUNCTIONS = dict(inspect.getmembers(test_scenarios, inspect.isfunction))
TESTS = {name.removeprefix("test_"): function for name, function in FUNCTIONS.items() if name.startswith("test_")}


def test_each_scenario_has_one_test_with_its_name() -> None:
    assert set(TESTS) == scenarios()


def test_each_scenario_has_its_own_time_limit() -> None:
    assert [name for name, test in TESTS.items() if [mark.name for mark in test.pytestmark] != ["timeout"]] == []


def test_a_scenario_begins_and_ends_without_a_cluster_and_verifies_idempotence_of_its_own_installation() -> None:
    for name in sorted(scenarios()):
        sequence = yaml.safe_load((SCENARIOS / name / "molecule.yml").read_text())["scenario"]["test_sequence"]
        assert sequence[0] == sequence[-1] == "destroy", name
        # The scenario kind verifies it in verify.yml, also for those that import its converge.yml.
        installs_like_kind = name == "kind" or "../kind/converge.yml" in (SCENARIOS / name / "converge.yml").read_text()
        middle = ["converge", "verify"] if installs_like_kind else ["converge", "idempotence", "verify"]
        # It installs two inventories one after the other, each twice.
        middle = ["converge"] if name == "examples" else middle
        # A step can be repeated.
        assert list(dict.fromkeys(step for step in sequence if step in ("converge", "idempotence", "verify"))) == middle, name


def test_molecule_tests_the_checkout_and_shares_no_cluster() -> None:
    config = yaml.safe_load((SCENARIOS / "config.yml").read_text())
    assert config["prerun"] is False and config["shared_state"] is False
    assert config["ansible"]["cfg"]["defaults"]["collections_path"] == "${MOLECULE_PROJECT_DIRECTORY}/.venv/collections"


def test_two_checkouts_have_clusters_with_different_names() -> None:
    assert cluster_name("kind") != cluster_name("kind", ROOT.parent)


def test_the_name_of_a_cluster_is_valid() -> None:
    for name in sorted(scenarios()):
        check_cluster_name(cluster_name(name))


def test_a_failed_host_is_found_though_the_exit_code_is_0() -> None:
    recap = "localhost                  : ok=37   changed=0    unreachable=0    failed={}    skipped=8    rescued=1    ignored=0"
    assert failed_hosts([recap.format(0), recap.format(1)]) == [recap.format(1)]
