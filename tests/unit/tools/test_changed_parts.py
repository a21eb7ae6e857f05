# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The choice of the parts of `make test-full` that CI runs at its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.core import LATER
from tests.molecule.scenario import scenarios
from tools.changed_parts import SCENARIOS, TESTS, changed_files, choose
from tools.full_run import PARTS
from tools.paths import ROOT


def test_each_folder_of_the_tables_exists_and_each_scenario_is_in_one_or_named_as_an_exception() -> None:
    assert [folder for one in (TESTS | SCENARIOS).values() for folder in one.folders if not (ROOT / folder).exists()] == []
    assert (TESTS | SCENARIOS).keys() <= PARTS.keys() and TESTS.keys() == LATER.keys()
    assert set(scenarios()) - SCENARIOS.keys() == {"kind", "scheduler_ha"}


def test_tests_and_the_scenario_with_the_most_changed_files_are_chosen_if_they_end_in_time() -> None:
    changed = ["roles/node_exporter/tasks/main.yml", "services/rescuer/cli.py", "services/rescuer/loop.py"]
    assert choose(changed, 5000.0)[0] == ["rescues", "plays", "faults"]
    assert choose(changed, 3000.0)[0] == ["rescues", "plays", "hosts"]
    assert choose(changed, 2000.0)[0] == ["rescues", "hosts"]
    assert choose(changed, 500.0)[0] == ["hosts"]
    seconds = {name: one.seconds for name, one in (TESTS | SCENARIOS).items()}
    names = ", ".join(f"{name} ({seconds[name]} s)" for name in ("plays", "rescues", "hosts", "faults"))
    assert choose(changed, 10.0) == ([], f"10 s are left, and these test the changed files: {names}")
    assert choose(["LICENSE", "rolesother/x"], 3000.0) == ([], "no part tests the changed files")


def test_files_are_compared_with_the_newest_tag_or_with_the_state_before_the_last_24_hours(tmp_path: Path) -> None:
    def git(*arguments: str, date: str = "now") -> None:
        dates = {} if date == "now" else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, env=os.environ | dates, check=True, capture_output=True)

    def commit(name: str, date: str = "now") -> None:
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "-m", name, date=date)

    git("init")
    commit("old", date="2020-01-01T00:00:00Z")
    assert changed_files(tmp_path) == []
    commit("first")
    commit("second")
    assert changed_files(tmp_path) == ["first", "second"]
    git("tag", "v1", "HEAD~1")
    assert changed_files(tmp_path) == ["second"]
