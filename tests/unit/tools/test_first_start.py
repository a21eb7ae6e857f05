# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment and the programs are made at the same time. An error of one ends the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import first_start
from tools.errors import ToolError
from tools.paths import ROOT

# Waits for a file of the other command, which is there only if both run at the same time.
MEETS = "touch {own}; until [ -e {other} ]; do sleep 0.02; done"


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_both_run_at_the_same_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first_start.run_side_by_side(
        {"the first": shell(MEETS.format(own=first, other=second)), "the second": shell(MEETS.format(own=second, other=first))}
    )


@pytest.mark.parametrize("order", [1, -1])
def test_an_error_of_one_ends_the_other_and_says_which(order: int, tmp_path: Path) -> None:
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    fails = ("the programs", shell(f"until [ -e {ready} ]; do sleep 0.02; done; exit 3"))
    waits = (".venv", shell(f"trap 'touch {ended}; exit 1' TERM; touch {ready}; while :; do sleep 0.02; done"))
    with pytest.raises(ToolError, match="the programs could not be made"):
        first_start.run_side_by_side(dict([fails, waits][::order]))
    assert ended.exists()


def test_only_the_standard_library_is_needed() -> None:
    subprocess.run([sys.executable, "-S", "-c", "import lab.binaries, tools.env, tools.first_start"], cwd=ROOT, check=True)
