# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All files name the version of galaxy.yml, and the changelog has it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml
from packaging.version import Version

from tests.style.sources import FILES, internal_modules
from tools import collection_version
from tools.collection_version import current, named
from tools.paths import ROOT

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


def test_each_place_is_in_a_document() -> None:
    texts = [(ROOT / name).read_text() for name in collection_version.files_with_versions()]
    assert [place.pattern for place in collection_version.PLACES if not any(map(place.search, texts))] == []


def test_nothing_was_added_in_a_version_that_does_not_exist() -> None:
    added = {
        (str(name), found)
        for name in FILES
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


def test_the_changelog_lists_the_modules_filters_and_public_roles_of_its_versions() -> None:
    listed = {entry["name"] for section in CHANGELOG.values() for entry in section.get("modules", [])}
    assert listed == {file.stem for file in (ROOT / "plugins" / "modules").glob("*.py")} - internal_modules()
    listed = {entry["name"] for section in CHANGELOG.values() for entry in section.get("plugins", {}).get("filter", [])}
    assert listed == {file.stem for file in (ROOT / "plugins" / "filter").glob("*.py")}
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
