# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs the checks of style side by side: Python, YAML, changelog, workflows, and the wording and structure of all files (tests/style).

Each part prints one line with its seconds, and its output if it fails. All parts run, also if one of them fails.
"""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from tools.errors import exit_with
from tools.paths import ENVIRONMENT, ROOT

PYTHON = str(ENVIRONMENT / "bin" / "python")
PARTS: dict[str, tuple[list[str], ...]] = {
    # First, because it takes longest.
    "wording and structure": ([PYTHON, "-m", "pytest", "-q", "--no-header", "tests/style"],),
    "yamllint": ([PYTHON, "-m", "yamllint", "--strict", "."],),
    "ruff": ([PYTHON, "-m", "ruff", "check", "."], [PYTHON, "-m", "ruff", "format", "--check", "."]),
    "changelog": (
        [PYTHON, "-m", "antsibull_changelog", "lint"],
        [PYTHON, "-m", "antsibull_changelog", "lint-changelog-yaml", "changelogs/changelog.yaml"],
    ),
    "workflows": ([PYTHON, "-m", "tools.workflows", "--if-built"],),
}
SIDE_BY_SIDE = 2


class Result(NamedTuple):
    """The end of a part: whether all of its commands ended with 0, and their output."""

    name: str
    passed: bool
    seconds: float
    output: str


def main() -> int:
    failed = []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for future in as_completed([pool.submit(run, name, commands) for name, commands in PARTS.items()]):
            result = future.result()
            print(f"{result.name}: {'ok' if result.passed else 'FAILED'} in {result.seconds:.1f} s", flush=True)
            if not result.passed:
                failed.append(result.name)
            if not result.passed or result.name == "workflows":
                print(result.output, end="", flush=True)
    if failed:
        print(f"style: {', '.join(failed)} failed")
    return int(bool(failed))


def run(name: str, commands: tuple[list[str], ...]) -> Result:
    """Run the commands of a part one after the other."""
    started = time.monotonic()
    ended = [subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command in commands]
    passed = all(one.returncode == 0 for one in ended)
    return Result(name, passed, time.monotonic() - started, "".join(one.stdout for one in ended))


if __name__ == "__main__":
    exit_with(main, "style")
