# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that needs a container engine is skipped with the reason where none answers, and fails under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kind import packages
from tools.paths import ROOT

REASON = "not run: container engine: the program docker is missing. Start Docker, or permit the lab"


@pytest.mark.parametrize("tests", ["tests/image/test_image.py", "tests/molecule/test_scenarios.py"])
def test_without_an_engine_a_test_is_a_counted_skip_and_a_failure_where_one_is_required(tests: str, tmp_path: Path) -> None:
    # Also under the variable nothing is installed: this machine has no package manager on its PATH.
    answers = []
    for required in ("", "1"):
        environment = {**os.environ, "PATH": str(tmp_path), packages.PERMISSION: required}
        command = [sys.executable, "-m", "pytest", "-q", "-rsE", "-p", "no:cacheprovider", tests]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        answers.append((done.returncode, done.stdout))
    (code, skipped), (required_code, failed) = answers
    assert code == 0 and re.search(r"\n\d+ skipped", skipped) and REASON in " ".join(skipped.split()), skipped
    assert required_code == 1 and re.search(r"\n\d+ errors? in", failed) and "not run: " in failed, failed
