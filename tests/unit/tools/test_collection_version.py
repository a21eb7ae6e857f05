# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A new version is written into all files that name the version of galaxy.yml."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.style.test_version import FILES_WITH_THE_VERSION
from tools import collection_version
from tools.collection_version import current, named, set_version, write
from tools.errors import ToolError
from tools.paths import ROOT


def test_a_new_version_is_written_into_all_of_them(tmp_path: Path) -> None:
    for name in {*collection_version.files_with_versions(), Path("galaxy.yml")}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    for version in ("12.34.56-rc.7", "12.34.56"):
        set_version(tmp_path / "galaxy.yml", version)
        assert current(tmp_path) == version
        assert {str(file) for file in write(tmp_path, version)} >= FILES_WITH_THE_VERSION
        assert {found for _file, found in named(tmp_path)} == {version}
        assert write(tmp_path, version) == []


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1", "latest", "01.0.0", "1.00.0", "1.0.0-rc.01"])
def test_a_version_that_galaxy_refuses_is_not_written(version: str, tmp_path: Path) -> None:
    file = tmp_path / "galaxy.yml"
    file.write_text("version: 1.0.0\n")
    with pytest.raises(ToolError, match=f"VERSION={version} is no semantic version"):
        set_version(file, version)
    assert file.read_text() == "version: 1.0.0\n"


def test_only_the_tag_of_this_collection_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_version, "files_with_versions", lambda: [Path("guide.md")])
    text = "git+https://example.org/other.git,v2.0.0 and git+https://example.org/onprem/kube_scheduling.git,v{}. Without `,v{}` it"
    (tmp_path / "guide.md").write_text(text.format("1.0.0", "1.0.0"))
    write(tmp_path, "1.2.3")
    assert (tmp_path / "guide.md").read_text() == text.format("1.2.3", "1.2.3")


@pytest.mark.parametrize(
    ("version", "text"), [("1.0.1", "galaxy.yml: 1.0.0 is now 1.0.1\n"), ("1.0.0", "galaxy.yml has the version 1.0.0 already\n")]
)
def test_a_change_of_galaxy_yml_is_printed(
    version: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "galaxy.yml").write_text("version: 1.0.0\n")
    monkeypatch.setattr(collection_version, "ROOT", tmp_path)
    monkeypatch.setattr(collection_version, "files_with_versions", list)
    monkeypatch.setenv("VERSION", version)
    assert collection_version.main() == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(("arguments", "expected"), [([], ""), (["VERSION=1.0.1"], "1.0.1")])
def test_make_takes_the_version_only_from_its_command_line(arguments: list[str], expected: str) -> None:
    command = ["make", "--no-print-directory", "--dry-run", "version", *arguments]
    answer = subprocess.run(command, cwd=ROOT, env={**os.environ, "VERSION": "9.9.9"}, capture_output=True, text=True)
    assert f'VERSION="{expected}" .venv/bin/python -m tools.collection_version' in answer.stdout, answer.stdout + answer.stderr
