# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one scenario of molecule, and read its exit code."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import ansible_core
from tools.paths import ENVIRONMENT, ROOT

SCENARIOS = ROOT / "extensions" / "molecule"
OUTPUT = ROOT / "tests" / "output"
LAST_LINES = 60
FAILURE = re.compile(r": ok=\d+ .*\b(unreachable|failed)=[1-9]")


def run_scenario(name: str, environment: Mapping[str, str]) -> None:
    """Run all steps of a scenario. The log is written to tests/output/. Raises AssertionError with its last lines."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    log_file = OUTPUT / f"molecule-{name}.log"
    command = [str(ansible_core.programs() / "python"), "-m", "molecule", "test", "--scenario-name", name]
    with log_file.open("wb") as log:
        # From the root: molecule finds extensions/molecule/config.yml only there.
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait()
        finally:
            if process.poll() is None:  # a time limit or an interrupt
                process.terminate()
                process.wait()
    lines = log_file.read_text(errors="replace").splitlines()
    last = "\n".join(lines[-LAST_LINES:])
    assert code == 0, f"molecule test --scenario-name {name} ended with exit code {code}. The whole log is {log_file}.\n{last}"
    failed = failed_hosts(lines)
    assert not failed, f"the exit code is 0, and hosts have failed. The whole log is {log_file}.\n" + "\n".join(failed)


def failed_hosts(lines: Sequence[str]) -> list[str]:
    """Return the lines of recaps that count a failure. ansible-playbook ends with 0 if a file of a role is missing within a block."""
    return [line for line in lines if FAILURE.search(line)]


def scenarios() -> set[str]:
    """Return the names of the folders that have a scenario."""
    return {path.parent.name for path in SCENARIOS.glob("*/molecule.yml")}


def cluster_name(scenario: str, checkout: Path = ROOT) -> str:
    """Return a name for the scenario's cluster that no other checkout uses."""
    return f"molecule-{scenario.replace('_', '-')}-{hashlib.sha256(str(checkout).encode()).hexdigest()[:6]}"


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(ansible_core.programs()), str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)])
    return {**environment, "PATH": path, "NO_COLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "PY_COLORS": "0"}
