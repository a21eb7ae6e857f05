# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection holds what users need, and nothing of the workshop."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tools.build import build
from tools.working_copy import repository_files

WRITTEN_BY_THE_BUILD = {"FILES.json", "MANIFEST.json"}
REQUIRED = {"CHANGELOG.md", "LICENSE", "LICENSES", "README.md", "changelogs", "docs", "meta", "plugins", "requirements.txt"}
ALLOWED = REQUIRED | {"extensions", "playbooks", "roles", "services"}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a freshly built artifact."""
    with tarfile.open(build(tmp_path_factory.mktemp("artifact"))) as archive:
        return {member.name for member in archive.getmembers() if not member.isdir()}


def test_only_allowed_names_at_the_top(artifact: set[str]) -> None:
    top = {name.split("/")[0] for name in artifact} - WRITTEN_BY_THE_BUILD
    assert top - ALLOWED == set()
    assert REQUIRED - top == set()


def test_every_file_of_the_shipped_folders_is_there(artifact: set[str]) -> None:
    shipped = {str(file) for file in repository_files() if file.parts[0] in ALLOWED and file.name != ".gitkeep"}
    assert shipped - artifact == set()


def test_nothing_that_a_run_left_behind(artifact: set[str]) -> None:
    left_behind = {name for name in artifact if {"__pycache__", "build", "output"} & set(Path(name).parts) or name.endswith(".pyc")}
    assert left_behind == set()
