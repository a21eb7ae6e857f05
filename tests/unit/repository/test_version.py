# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All files name the version of galaxy.yml, and the changelog has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from tools import collection_version
from tools.collection_version import current, named, set_version, write
from tools.errors import ToolError
from tools.paths import ROOT
from tools.working_copy import repository_files

VERSION = current(ROOT)
CHANGELOG = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text())["releases"]
FILES_WITH_THE_VERSION = {
    "README.md",
    "awx/execution-environment.yml",
    "deploy/rebalancer-cronjob.yaml",
    "deploy/rescuer-deployment.yaml",
    "docs/awx.md",
    "docs/gitops.md",
    "docs/service-image.md",
    "roles/critical_rescuer/README.md",
}


def test_all_files_name_the_version_of_the_collection() -> None:
    found = list(named(ROOT))
    assert {(str(file), version) for file, version in found if version != VERSION} == set(), "run make version"
    assert {str(file) for file, _version in found} >= FILES_WITH_THE_VERSION


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
    with pytest.raises(ToolError, match=f"VERSION={version} is no semantic version: use three numbers"):
        set_version(file, version)
    assert file.read_text() == "version: 1.0.0\n"


def test_only_the_tag_of_this_collection_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_version, "files_with_versions", lambda: [Path("guide.md")])
    text = "git+https://example.org/other.git,v2.0.0 and git+https://example.org/onprem/kube_scheduling.git,v{}. Without `,v{}` it"
    (tmp_path / "guide.md").write_text(text.format("1.0.0", "1.0.0"))
    write(tmp_path, "1.2.3")
    assert (tmp_path / "guide.md").read_text() == text.format("1.2.3", "1.2.3")


def test_each_place_is_in_a_document() -> None:
    texts = [(ROOT / name).read_text() for name in collection_version.files_with_versions()]
    assert [place.pattern for place in collection_version.PLACES if not any(map(place.search, texts))] == []


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


def test_nothing_was_added_in_a_version_that_does_not_exist() -> None:
    added = {
        (str(name), found)
        for name in repository_files()
        if name.parts[0] in ("plugins", "roles") and name.suffix in (".py", ".yml")
        for found in re.findall(r"^ *version_added: (\S+)$", (ROOT / name).read_text(), re.MULTILINE)
    }
    assert len(added) > len(list((ROOT / "plugins" / "modules").glob("*.py")))
    # A change for the next release names the next version before galaxy.yml does.
    coming = {entry for entry in added if Version(entry[1]) > Version(VERSION)}
    assert {entry for entry in added - coming if entry[1] not in CHANGELOG} == set()
    assert not coming or any((ROOT / "changelogs" / "fragments").glob("*.yml"))


def test_the_newest_section_of_the_changelog_is_the_version_and_has_a_summary() -> None:
    assert max(CHANGELOG, key=Version) == VERSION
    assert all(section["changes"]["release_summary"].strip() for section in CHANGELOG.values())


def _is_released(file: Path) -> bool:
    """Return whether a module or a filter is not one of the next version, which has no section in the changelog yet."""
    added = re.search(r"^version_added: (\S+)$", file.read_text(), re.MULTILINE)
    assert added, file
    return Version(added[1]) <= Version(VERSION)


def test_the_changelog_lists_the_modules_filters_and_public_roles_of_its_versions() -> None:
    listed = {entry["name"] for section in CHANGELOG.values() for entry in section.get("modules", [])}
    assert listed == {file.stem for file in (ROOT / "plugins" / "modules").glob("*.py") if _is_released(file)}
    listed = {entry["name"] for section in CHANGELOG.values() for entry in section.get("plugins", {}).get("filter", [])}
    assert listed == {file.stem for file in (ROOT / "plugins" / "filter").glob("*.py") if _is_released(file)}
    listed = {entry["name"] for section in CHANGELOG.values() for entry in section.get("objects", {}).get("role", [])}
    assert listed == {file.parent.parent.name for file in (ROOT / "roles").glob("*/meta/argument_specs.yml")}


def test_changelog_md_is_made_from_changelog_yaml(tmp_path: Path) -> None:
    # A folder without plugins, because the program would let ansible-doc read all of them.
    (tmp_path / "changelogs" / "fragments").mkdir(parents=True)
    for name in ("galaxy.yml", "changelogs/config.yaml", "changelogs/changelog.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    program = str(Path(sys.executable).with_name("antsibull-changelog"))
    answer = subprocess.run([program, "generate"], cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "CHANGELOG.md").read_text() == (ROOT / "CHANGELOG.md").read_text()
