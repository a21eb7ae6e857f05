# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflows of the public CI call targets of the Makefile, with few rights and with pinned actions."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tools.ansible_core import RELEASES
from tools.full_run import PARTS
from tools.paths import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[str, Any]] = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
OTHER_COMMANDS = re.compile(r"sudo chown -R |git fetch --force origin |gh release create .* --draft ")
"""Commands that prepare a job or publish its files."""
OLDEST, NEWEST = (3, 11), (3, 14)


JOBS = [(workflow, job) for workflow in WORKFLOWS.values() for job in workflow["jobs"].values()]


def commands(job: dict[str, Any]) -> list[str]:
    return [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines() if line.strip()]


def test_there_are_workflows_for_changes_scenarios_and_releases() -> None:
    assert set(WORKFLOWS) == {"ci", "full", "release"}


def test_a_job_calls_targets_of_the_makefile() -> None:
    for command in (command for _workflow, job in JOBS for command in commands(job)):
        called = re.search(r"(?:^|\s)make ([a-z -]+)$", command)
        if called:
            assert set(called[1].split()) <= TARGETS, command
        else:
            assert command.endswith("bash .ci/run") or OTHER_COMMANDS.match(command), command


def test_a_job_has_a_time_limit_and_may_only_read_unless_it_makes_the_release() -> None:
    for workflow, job in JOBS:
        assert 0 < job["timeout-minutes"] <= 150
        rights = job.get("permissions", workflow["permissions"])
        assert rights == ({"contents": "write"} if any("gh release" in command for command in commands(job)) else {"contents": "read"})
        # A job that may write runs no code of the repository.
        assert rights == {"contents": "read"} or not any("checkout" in step.get("uses", "") for step in job["steps"])


def test_actions_are_pinned_and_a_checkout_keeps_no_credentials() -> None:
    for file in FILES:
        uses = [line.strip().removeprefix("- ") for line in file.read_text().splitlines() if re.match(r"\s*(- )?uses:", line)]
        assert uses and [line for line in uses if not PINNED.match(line)] == []
        steps = [step for job in WORKFLOWS[file.stem]["jobs"].values() for step in job["steps"]]
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts), file.name
        # No text of others, such as the title of a pull request, becomes a part of a command.
        assert not any("${{" in step.get("run", "") for step in steps), file.name


def test_unit_tests_run_with_each_combination_that_exists() -> None:
    pythons = [(3, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
    existing = {(name, f"{python[0]}.{python[1]}") for name, one in RELEASES.items() for python in pythons if one.supports(python)}
    matrix = WORKFLOWS["ci"]["jobs"]["unit"]["strategy"]["matrix"]["include"]
    assert {(entry["ansible"], entry["python"]) for entry in matrix} == existing and len(matrix) == len(existing)
    assert WORKFLOWS["ci"]["jobs"]["sanity"]["strategy"]["matrix"]["ansible"] == list(RELEASES)


def test_each_part_of_the_full_tests_has_a_job() -> None:
    assert WORKFLOWS["full"]["jobs"]["part"]["strategy"]["matrix"]["part"] == list(PARTS)


def test_the_cache_of_the_project_is_kept() -> None:
    caches = [step for job in WORKFLOWS["ci"]["jobs"].values() for step in job["steps"] if "actions/cache@" in step.get("uses", "")]
    assert len(caches) == 3 and all(step["with"]["path"] == "~/.cache/onprem-kube-scheduling" for step in caches)
