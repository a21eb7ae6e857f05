# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A failed test that passes when it is repeated alone does not fail the run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.paths import ROOT

INI = f"""[pytest]
pythonpath = {ROOT}
addopts = -p xdist -p no:cacheprovider
markers = never_repeated
"""
CONFTEST = "from tests.repeats import Repeats\npytest_configure = Repeats.register\n"
TESTS = """
import os
import pathlib

import pytest

def first(name):
    seen = pathlib.Path(__file__).with_name(name)
    try:
        return not seen.exists()
    finally:
        seen.write_text("")

@pytest.fixture
def ready():
    assert not first("ready"), "not ready yet"

@pytest.fixture
def checked():
    yield
    assert not first("checked"), "something is left"

def test_passes(): pass
def test_fails_once(): assert not first("once"), "the first time"
def test_setup_fails_once(ready): pass
def test_teardown_fails_once(checked): pass
def test_both_fail_once(checked): assert not first("both"), "the first time"
def test_crashes_once():
    if first("crash"): os._exit(3)
def test_is_skipped_then():
    if not first("skipped"): pytest.skip("now")
    assert False
@pytest.mark.parametrize("number", range(4))
def test_fails(number): assert False, f"case {number}"
@pytest.mark.never_repeated
def test_is_marked(): assert not first("marked")
def test_of_a_hold(): assert not first("hold")
@pytest.mark.parametrize("one", ["holds"])
def test_of_threshold(one): assert not first("threshold")
"""


class Ran:
    """A run of pytest: some of the tests above."""

    def __init__(self, folder: Path, names: str, *options: str) -> None:
        (folder / "test_all.py").write_text(TESTS)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "pytest.ini").write_text(INI)
        ids = [f"test_all.py::test_{name}" for name in names.split()]
        command = [sys.executable, "-m", "pytest", "-ra", *options, *ids]
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # a shorter start
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        self.code, self.output = done.returncode, done.stdout + done.stderr
        self.flaky = re.findall(r"^FLAKY test_all.py::test_(.+?) - (.+)$", self.output, re.MULTILINE)
        self.last_line = re.sub(r" in [\d.]+s", "", self.output.splitlines()[-1].strip("= "))
        path = folder / "tests" / "output" / "flaky.json"
        self.noted = json.loads(path.read_text()) if path.exists() else []


@pytest.mark.ci_more
@pytest.mark.parametrize(
    "options", [(), ("-n", "2", "--dist", "loadfile", "--junitxml", "all.xml", "--durations=5")], ids=["one", "workers"]
)
def test_test_that_passes_alone_does_not_fail_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = Ran(tmp_path, "passes fails_once setup_fails_once of_threshold", *options)
    assert ran.code == 0 and ran.last_line == "1 passed, 3 flaky", ran.output
    assert "failed first: test_all.py::test_fails_once" in ran.output and "AssertionError: the first time" in ran.output
    assert {name for name, _ in ran.flaky} == {"fails_once", "setup_fails_once", "of_threshold[holds]"}
    assert ran.output.splitlines()[-2].startswith("FLAKY ")
    assert {(entry["nodeid"].partition("::test_")[2], entry["failure"].partition(": ")[2]) for entry in ran.noted} >= {
        ("fails_once", "the first time"),
        ("setup_fails_once", "not ready yet"),
    }
    if options:
        assert (tmp_path / "all.xml").read_text().count("<testcase ") == 4
    later = Ran(tmp_path, "both_fail_once", *options)
    assert later.code == 0 and later.last_line == "1 flaky" and len(later.noted) == 4, later.output


@pytest.mark.parametrize(
    ("names", "last_line", "reason"),
    [
        ("fails", "4 failed", "because 4 tests failed"),
        ("passes fails_once is_marked", "2 failed, 1 passed", "::test_is_marked is never repeated"),
        ("of_a_hold", "1 failed", "::test_of_a_hold is never repeated"),
        ("teardown_fails_once", "1 passed, 1 error", "what other tests have left"),
        ("fails_once -x", "1 failed", ""),
        ("crashes_once -n2", "1 failed", "::test_crashes_once has crashed"),
    ],
)
def test_nothing_is_repeated_if_the_run_fails_in_any_case(tmp_path: Path, names: str, last_line: str, reason: str) -> None:
    words = names.split()
    options = [word for word in words if word.startswith("-")]
    ran = Ran(tmp_path, " ".join(word for word in words if word not in options), *options)
    assert ran.code != 0 and ran.last_line == last_line and reason in ran.output, ran.output
    assert "repeated alone" not in ran.output and not ran.flaky and not ran.noted


@pytest.mark.ci_more
def test_test_that_fails_again_or_is_skipped_fails_the_run(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "fails[2] is_skipped_then fails_once")
    assert ran.code == 1 and ran.last_line == "2 failed, 1 flaky", ran.output
    assert "failed again: test_all.py::test_fails[2]" in ran.output and ran.output.count("E   AssertionError: case 2") == 2
    assert [name for name, _ in ran.flaky] == ["fails_once"]
