# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs the parts of `make test-full` that test the changed folders, at the end of CI: tests, and then one scenario, if there is time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.full_run import PARTS, PYTEST
from tools.paths import ROOT

STARTED = "CI_STARTED"
"""The variable with the time at which CI began, in seconds since 1970. Without it, CI begins now."""
LIMIT_S = 70 * 60
"""No part begins in CI that would end later than this."""
NO_PART = (*PYTEST, "tests/molecule", "--collect-only", "-q")
"""If no part is to run: the scenarios are listed, so that CI ends with a line of pytest in any case."""


@dataclass(frozen=True)
class LongPart:
    """``seconds``: measured on two processors. ``folders``: what only this part tests, and its tests."""

    seconds: int
    folders: tuple[str, ...]

    def tests(self, path: str) -> bool:
        """Return True if the path is in one of the folders."""
        return any(Path(path).is_relative_to(folder) for folder in self.folders)


TESTS = {
    "plays": LongPart(
        1500,
        (
            *("awx", "playbooks", "plugins/action", "plugins/filter", "roles"),
            *("tests/unit/playbooks", "tests/unit/roles", "tests/integration/awx"),
            *("tests/integration/playbooks", "tests/integration/roles"),
        ),
    ),
    "rescues": LongPart(
        900,
        (
            *("services/rescuer", "services/common", "plugins/modules/k8s_critical_rescue.py", "plugins/module_utils/rescue"),
            *("plugins/module_utils/operations/rescue", "plugins/module_utils/state", "plugins/module_utils/kube"),
            *("plugins/module_utils/scheduler", "tests/integration/faults", "tests/integration/rescue"),
            *("tests/integration/rescuer", "tests/integration/state"),
        ),
    ),
}
"""The parts with tests that CI does not run otherwise."""

SCENARIOS = {
    "hosts": LongPart(400, ("roles/node_exporter", "plugins/module_utils/hosts/node_exporter", "lab/hosts", "extensions/molecule/hosts")),
    "scheduler": LongPart(
        1100,
        (
            *("roles/extended_scheduler", "playbooks/scheduler.yml", "plugins/module_utils/scheduler_config"),
            *("plugins/module_utils/second_scheduler", "plugins/module_utils/hosts", "extensions/molecule/scheduler"),
        ),
    ),
    "scheduler_traffic": LongPart(1340, ("services/extender", "extensions/molecule/scheduler_traffic")),
    "lifecycle": LongPart(
        1500,
        (
            *("roles/spread_cronjob", "roles/critical_rescuer", "roles/service_image"),
            *("lab/kind", "extensions/molecule/kind", "extensions/molecule/lifecycle"),
        ),
    ),
    "upgrade": LongPart(700, ("extensions/molecule/upgrade",)),
    "examples": LongPart(600, ("extensions/molecule/examples", "examples")),
    "faults": LongPart(
        2020,
        (
            *("services/rescuer", "services/rebalancer", "services/common", "plugins/module_utils/operations"),
            *("plugins/module_utils/kube", "plugins/module_utils/state", "extensions/molecule/faults"),
        ),
    ),
}
"""`scheduler_ha` takes longer than CI has time: only `make test-full` runs it."""


def main() -> int:
    started_s = float(os.environ.get(STARTED) or time.time())
    chosen, why = choose(changed_files(ROOT), LIMIT_S - (time.time() - started_s))
    print(f"parts of make test-full for the change: {', '.join(chosen) or 'none'}, because {why}", flush=True)
    commands = [PARTS[name].command for name in chosen] or [NO_PART]
    for command in commands:
        if code := subprocess.run([sys.executable, *command[1:]], cwd=ROOT).returncode:
            return code
    return 0


def choose(changed: Iterable[str], seconds_left: float) -> tuple[list[str], str]:
    """Return the parts that test the changed paths and end in time, and the reason. At most one of them is a scenario."""
    paths = list(changed)
    parts = TESTS | SCENARIOS
    counts = {name: count for name, one in parts.items() if (count := sum(map(one.tests, paths)))}
    if not counts:
        return [], "no part tests the changed files"
    chosen: list[str] = []
    left_s = seconds_left
    for name in sorted(counts, key=lambda name: (name in SCENARIOS, -counts[name])):
        if parts[name].seconds <= left_s and not SCENARIOS.keys() & chosen:
            chosen.append(name)
            left_s -= parts[name].seconds
    tests = ", ".join(f"{name} ({parts[name].seconds} s)" for name in counts)
    return chosen, f"{max(0.0, seconds_left):.0f} s are left, and these test the changed files: {tests}"


def changed_files(root: Path) -> list[str]:
    """Return the files that differ from the newest tag, or else from the state before the first commit of the last 24 hours."""
    tag = _git(root, "tag", "--list", "--merged", "HEAD", "--sort=-creatordate").partition("\n")[0]
    recent = _git(root, "log", "--since=24 hours ago", "--format=%H").split()
    base = tag or (f"{recent[-1]}^" if recent else "HEAD")
    return _git(root, "diff", "--name-only", base, "HEAD").splitlines()


def _git(root: Path, *arguments: str) -> str:
    """Return the output of a command. It fails in a checkout without the older commits."""
    return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
