# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The releases of ansible-core: those of the pins, and the requirements of an environment with another one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.ansible_core import VARIABLE, programs
from tools import ansible_core, env, interpreters
from tools.ansible_core import DEVEL, RELEASES, release, requirements_with
from tools.env import CONSTRAINTS, REQUIREMENTS
from tools.errors import ToolError
from tools.paths import ROOT


def lines_of(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]


def test_the_pins_are_those_of_the_default_environments() -> None:
    pinned = {str(found.specifier) for found in map(Requirement, lines_of(ROOT / "requirements-dev.txt")) if "core" in found.name}
    known = {str(Requirement(one.requirement).specifier) for name, one in RELEASES.items() if name != DEVEL}
    assert len(pinned) == 2 and set(pinned) <= known
    for minor, one in RELEASES.items():
        assert minor == DEVEL or one.requirement.startswith(f"ansible-core=={minor}.")


def test_the_oldest_release_is_the_one_that_the_collection_requires() -> None:
    assert yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["requires_ansible"] == f">={next(iter(RELEASES))}.0"


@pytest.mark.parametrize("wanted", RELEASES)
def test_only_the_release_and_its_constraints_are_changed(wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = [*REQUIREMENTS, *CONSTRAINTS]
    copies = requirements_with(RELEASES[wanted], files)
    assert [copy.name for copy in copies] == [file.name for file in files] and len(set(copies)) == len(files)
    before = [line for file in files for line in lines_of(file)]
    after = [line for copy in copies for line in lines_of(copy)]
    added = [RELEASES[wanted].requirement, *(f"{name}=={version}" for name, version in RELEASES[wanted].constraints.items())]
    assert [line for line in after if line in added] == added and len(set(after) - set(before)) <= len(added)
    replaced = {"ansible-core", *RELEASES[wanted].constraints}
    assert set(before) - set(after) <= {line for line in before if re.split("[=<>]", line)[0] in replaced}


def test_the_environment_of_the_development_branch_is_a_new_one_on_each_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (file,) = requirements_with(RELEASES[DEVEL], [ROOT / "requirements-dev.txt"])
    assert re.search(r"^# \d{4}-\d\d-\d\d\nansible-core @ https://", file.read_text(), re.M)


@pytest.mark.parametrize(
    ("wanted", "python", "text"),
    [
        ("2.17", (3, 12), "ANSIBLE_CORE=2.17 is not known: use 2.18, 2.19, 2.20, 2.21, devel"),
        ("2.18", (3, 14), "ansible-core 2.18 runs with Python 3.11 to 3.13, and the interpreter is Python 3.14"),
        ("2.21", (3, 11), "make env ANSIBLE_CORE=2.21 BASE_PYTHON=/path/to/python3.14"),
    ],
)
def test_a_release_that_does_not_exist_for_the_python_is_refused(wanted: str, python: tuple[int, int], text: str) -> None:
    with pytest.raises(ToolError, match=re.escape(text)):
        release(wanted, python)


def test_a_release_is_found() -> None:
    assert release("2.19", (3, 11)) is ansible_core.RELEASES["2.19"]


@pytest.mark.parametrize("running", [(3, 11), (3, 14)])
@pytest.mark.parametrize("wanted", RELEASES)
def test_playbooks_run_with_each_release_on_a_python_that_it_supports(
    wanted: str, running: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Path, str | None]] = []
    own = Path("/own/python")
    monkeypatch.setattr(sys, "version_info", (*running, 0))
    monkeypatch.setattr(sys, "_base_executable", str(own))
    monkeypatch.setattr(interpreters, "find", lambda version: Path(f"/usr/bin/python{version}"))
    monkeypatch.setattr(env, "libraries", lambda python, core: made.append((python, core)) or Path("/venv"))
    monkeypatch.setenv(VARIABLE, wanted)
    assert programs() == Path("/venv/bin")
    newest = ".".join(map(str, RELEASES[wanted].newest_python))
    assert made == [(own if RELEASES[wanted].supports(running) else Path(f"/usr/bin/python{newest}"), wanted)]


def test_without_a_release_playbooks_run_with_the_programs_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert programs() == Path(sys.executable).parent


def test_playbooks_are_not_run_with_a_release_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2.17")
    with pytest.raises(pytest.fail.Exception, match=rf"{VARIABLE}=2.17: .* is not known: use 2.18, 2.19"):
        programs()
