# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The guide docs/add-an-agent.md works: its files, its commands and their output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.paths import COLLECTIONS, ROOT

GUIDE = (ROOT / "docs" / "add-an-agent.md").read_text(encoding="utf-8")
FILE = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(FILE.findall(GUIDE))
COMMANDS = COMMAND.findall(GUIDE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the guide, installed as pip does."""
    folder = tmp_path_factory.mktemp("quiet-disks")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    metadata = folder / "quiet_disks-1.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, entries in groups for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": os.pathsep.join((str(COLLECTIONS), str(folder))), "PATH": ""}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_guide_has_all_files_and_commands() -> None:
    expected = {"quiet_disks.py", "pyproject.toml", "test_quiet_disks.py", "recording.jsonl", "config.yaml", "Containerfile"}
    assert set(FILES) == expected and len(COMMANDS) == 2


def test_the_test_of_the_guide_passes(package: Path) -> None:
    answer = run(
        package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(package), "test_quiet_disks.py"
    )
    assert "2 passed" in answer.stdout, answer.stdout + answer.stderr


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_a_command_of_the_guide_has_its_output(package: Path, command: str, output: str) -> None:
    python, *arguments = shlex.split(command)
    answer = run(package, *arguments)
    assert (python, answer.returncode, answer.stderr) == ("python", 0, "")
    assert answer.stdout == output


def test_a_wrong_argument_of_the_agent_is_refused_by_its_name(package: Path) -> None:
    (package / "wrong.yaml").write_text(FILES["config.yaml"].replace("device:", "devise:"))
    answer = run(package, "-m", "ansible_collections.onprem.kube_scheduling.services.extender", "--config", "wrong.yaml", "--check-config")
    assert answer.returncode == 2 and "devise" in answer.stderr and "device" in answer.stderr
