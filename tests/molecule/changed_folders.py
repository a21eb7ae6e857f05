# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The long scenario that CI runs for a change: the one whose folders have the most changed files, if it ends in time.

As a plugin of pytest (`make changed-scenario`), it deselects the other scenarios.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

STARTED = "CI_STARTED"
"""The variable with the time at which CI began, in seconds since 1970. Without it, CI begins now."""
LIMIT_S = 70 * 60
"""No scenario begins in CI that would end later than this."""


@dataclass(frozen=True)
class LongScenario:
    """``seconds``: measured on two processors. ``folders``: what it tests and the short scenario `kind` does not."""

    seconds: int
    folders: tuple[str, ...]

    def tests(self, path: str) -> bool:
        """Return True if the path is in one of the folders."""
        return any(Path(path).is_relative_to(folder) for folder in self.folders)


SCENARIOS = {
    "hosts": LongScenario(400, ("roles/node_exporter", "lab/hosts", "extensions/molecule/hosts")),
    "scheduler": LongScenario(
        1100,
        ("roles/extended_scheduler", "playbooks/scheduler.yml", "plugins/module_utils/scheduler_config", "extensions/molecule/scheduler"),
    ),
    "scheduler_traffic": LongScenario(1340, ("services/extender", "extensions/molecule/scheduler_traffic")),
    "lifecycle": LongScenario(
        1500,
        (
            *("roles/spread_cronjob", "roles/critical_rescuer", "roles/service_image", "roles/cluster_objects", "roles/check_variables"),
            *("playbooks", "lab/kind", "extensions/molecule/kind", "extensions/molecule/lifecycle"),
        ),
    ),
    "faults": LongScenario(
        2020,
        (
            *("services/rescuer", "services/rebalancer", "services/common", "plugins/module_utils/operations"),
            *("plugins/module_utils/kube", "plugins/module_utils/state", "extensions/molecule/faults"),
        ),
    ),
}
"""`scheduler_ha` takes longer than CI has time: only `make test-full` runs it."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all scenarios but the one of the change."""
    started_s = float(os.environ.get(STARTED) or time.time())
    chosen, why = choose(changed_files(config.rootpath), LIMIT_S - (time.time() - started_s))
    print(f"\nscenario of the change: {chosen or 'none'}, because {why}", flush=True)
    others = [item for item in items if item.name != f"test_{chosen}"]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """It is no error if no scenario is to run."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def choose(changed: Iterable[str], seconds_left: float) -> tuple[str | None, str]:
    """Return the scenario for the changed paths, and the reason for the choice. The scenario is None if none is to run."""
    paths = list(changed)
    counts = {name: sum(map(one.tests, paths)) for name, one in SCENARIOS.items()}
    concerned = [name for name, count in counts.items() if count]
    if not concerned:
        return None, "no long scenario tests the changed files"
    in_time = [name for name in concerned if SCENARIOS[name].seconds <= seconds_left]
    if not in_time:
        return None, f"{max(0.0, seconds_left):.0f} s are left, and {', '.join(concerned)} would take longer"
    best = max(in_time, key=lambda name: counts[name])
    return best, f"it tests {counts[best]} of {len(paths)} changed files"


def changed_files(root: Path) -> list[str]:
    """Return the files that differ from the newest tag, or else from the state before the first commit of the last 24 hours."""
    tag = _git(root, "tag", "--list", "--merged", "HEAD", "--sort=-creatordate").partition("\n")[0]
    recent = _git(root, "log", "--since=24 hours ago", "--format=%H").split()
    base = tag or (f"{recent[-1]}^" if recent else "HEAD")
    return _git(root, "diff", "--name-only", base, "HEAD").splitlines()


def _git(root: Path, *arguments: str) -> str:
    """Return the output of a command. It fails in a checkout without the older commits."""
    return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
