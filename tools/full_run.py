# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs the checks that take too long for `make test` and `make ci-more`, one part after the other. `make test-full` calls it.

The result of a part is kept for its commit in tests/output, so an interrupted run continues: python -m tools.full_run [PART...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools import ansible_core
from tools.errors import ToolError, exit_with
from tools.paths import ROOT

PYTEST = ("python", "-m", "pytest")
SCENARIO = "tests/molecule/test_scenarios.py::test_"
OLDEST = {"PLAYBOOK_ANSIBLE_CORE": ansible_core.OLDEST}
WITH_ANSIBLE = (
    "tests/unit/playbooks",
    "tests/unit/roles",
    "tests/integration/playbooks",
    "tests/integration/roles",
    "tests/integration/rescuer",
    "tests/integration/scheduler_config",
    "tests/integration/awx/test_setup.py",
    "tests/integration/awx/test_rendered.py",
    "tests/integration/secrets",
)
"""The tests that run playbooks and roles with the ansible-core of PLAYBOOK_ANSIBLE_CORE."""
VARIABLES = ("ANSIBLE_CORE", "BASE_PYTHON", "KUBE_SCHEDULING_REQUIRE_ENGINE", "LAB_KUBERNETES", "LAB_PROGRAMS", "PLAYBOOK_ANSIBLE_CORE")
"""The variables of the environment that change what a part tests. Each choice of them has results of its own."""
SIDE_BY_SIDE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=20")


@dataclass(frozen=True)
class Part:
    """The command of a part, and what it adds to the environment."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def _scenario(name: str, **environment: str) -> Part:
    return Part((*PYTEST, f"{SCENARIO}{name}"), tuple(environment.items()))


PARTS = {
    **{
        name: _scenario(name)
        for name in ("lifecycle", "hosts", "scheduler", "scheduler_ha", "scheduler_traffic", "faults", "upgrade", "examples")
    },
    "plays": Part((*PYTEST, "tests/unit", "tests/integration", "-m", "plays and not full", *SIDE_BY_SIDE)),
    "rescues": Part((*PYTEST, "tests/integration", "-m", "rescues and not full", *SIDE_BY_SIDE)),
    "integration": Part((*PYTEST, "tests/integration", "-m", "full", *SIDE_BY_SIDE)),
    "image": Part((*PYTEST, "tests/image", "-m", "full")),
    "sanity": Part(("python", "-m", "tools.sanity", "--all-pythons")),
    "oldest-libraries": Part(("python", "-m", "tools.oldest_libraries")),
    "oldest-ansible": Part((*PYTEST, *WITH_ANSIBLE, *SIDE_BY_SIDE), tuple(OLDEST.items())),
    "oldest-ansible-kind": _scenario("kind", **OLDEST),
    "oldest-ansible-lifecycle": _scenario("lifecycle", **OLDEST),
    "oldest-ansible-hosts": _scenario("hosts", **OLDEST),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the long checks.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - PARTS.keys()):
        raise ToolError(f"there is no part {', '.join(unknown)}. The parts are {', '.join(PARTS)}.")
    folder = results_of_commit()
    results: dict[str, dict[str, object]] = {}
    for name in options.parts or PARTS:
        result = kept(folder, name)
        if result and result["passed"]:
            print(f"==> {name}: has passed on this commit in {result['seconds']} s")
        else:
            result = run(folder, name)
        results[name] = result
    for name, result in results.items():
        print(f"{name:<22} {'passed' if result['passed'] else 'FAILED':<7} {result['seconds']:>6} s  {result['last_line']}")
    return 0 if all(result["passed"] for result in results.values()) else 1


def results_of_commit() -> Path | None:
    """Return the folder with the results of the commit and the versions of the environment. Without a clean tree there is none."""
    if _git("status", "--porcelain"):
        print("The tree has changes that are not committed, so the results are not kept.")
        return None
    versions = (f"{name}-{os.environ[name]}" for name in VARIABLES if os.environ.get(name))
    folder = ROOT / "tests" / "output" / "test-full" / "-".join([_git("rev-parse", "HEAD"), *versions])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(folder: Path | None, name: str) -> dict[str, object] | None:
    """Return the kept result of a part."""
    file = folder / f"{name}.json" if folder else None
    if file is None or not file.exists():
        return None
    result: dict[str, object] = json.loads(file.read_text())
    return result


def run(folder: Path | None, name: str) -> dict[str, object]:
    """Run a part, and keep its result and its output."""
    part = PARTS[name]
    began_s = time.monotonic()
    log = folder / f"{name}.log" if folder else Path(os.devnull)
    last_line = ""
    command = [sys.executable, "-m", "tools.run_step", "--quiet-end", name, "--", *part.command]
    environment = os.environ | dict(part.environment)
    with log.open("w") as file, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
            if not line.startswith("==> "):  # the line of run_step about a failure
                last_line = line.strip() or last_line
    last_line = last_line.strip("= ")
    # A part whose only test is skipped has not passed.
    passed = process.returncode == 0 and not re.match(r"\d+ skipped", last_line)
    result = {"passed": passed, "seconds": round(time.monotonic() - began_s), "last_line": last_line}
    if folder and folder == results_of_commit():
        fresh = folder / f".{name}.json"
        fresh.write_text(json.dumps(result))
        fresh.replace(folder / f"{name}.json")
    return result


def _git(*arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"git {' '.join(arguments)} failed: {answer.stderr.strip()}")
    return answer.stdout.strip()


if __name__ == "__main__":
    exit_with(main, "test-full")
