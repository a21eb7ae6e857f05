# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry point of the image starts each program by its name, and refuses other names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.onprem.kube_scheduling.services.__main__ import PROGRAMS

from tools.paths import COLLECTIONS, ROOT

SERVICES = "ansible_collections.onprem.kube_scheduling.services"


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", SERVICES, *arguments]
    return subprocess.run(command, env={"PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True)


def test_each_program_of_the_collection_has_a_name() -> None:
    assert set(PROGRAMS) == {file.parent.name for file in (ROOT / "services").glob("*/__main__.py")}


def test_the_help_lists_the_programs() -> None:
    answer = start("--help")
    assert answer.returncode == 0 and all(f"  {name} " in answer.stdout for name in PROGRAMS)


def test_the_version_is_that_of_the_collection() -> None:
    version = next(line.split()[1] for line in (ROOT / "galaxy.yml").read_text().splitlines() if line.startswith("version:"))
    assert start("--version").stdout == f"{version}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["reskuer"], "services: reskuer is not a program; the nearest is rescuer. The programs are rebalancer, rescuer, extender"),
        ([], "services: the name of a program is missing. The programs are rebalancer, rescuer, extender"),
    ],
)
def test_an_unknown_name_is_refused(arguments: list[str], text: str) -> None:
    answer = start(*arguments)
    assert (answer.returncode, answer.stdout, answer.stderr.strip()) == (2, "", text)


@pytest.mark.parametrize(("name", "flag"), [("rescuer", "--gracee-period=3"), ("extender", "--lissten=:1")])
def test_a_program_gets_its_arguments_and_ends_the_process_with_its_exit_code(name: str, flag: str) -> None:
    answer = start(name, flag)
    assert answer.returncode == 2 and answer.stderr.startswith(f"{name}: {flag.partition('=')[0]} is not a flag; the nearest is")
