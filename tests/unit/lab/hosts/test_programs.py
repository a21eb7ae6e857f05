# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release archive has the layout of node_exporter's releases, and the same program gives the same archive."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from lab.hosts import programs


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "node_exporter-old"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_program_is_in_a_folder_with_the_name_of_the_release(program: Path, tmp_path: Path) -> None:
    programs.write(tmp_path / "a.tar.gz", program, folder="node_exporter-1.0.0.linux-amd64")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        found = {member.name: (member.isdir(), member.mode & 0o111) for member in archive.getmembers()}
    assert found == {"node_exporter-1.0.0.linux-amd64": (True, 0o111), "node_exporter-1.0.0.linux-amd64/node_exporter": (False, 0o111)}


def test_the_same_program_gives_the_same_archive(program: Path, tmp_path: Path) -> None:
    written = []
    for name in ("one.tar.gz", "two.tar.gz"):
        programs.write(tmp_path / name, program, folder="release")
        written.append((tmp_path / name).read_bytes())
        program.touch()
    assert written[0] == written[1]


def test_every_release_has_a_version_and_a_program_of_its_own() -> None:
    versions = [version for version, _ in programs.RELEASES.values()]
    names = [module.programs[0].name for _, module in programs.RELEASES.values()]
    assert len(set(versions)) == len(set(names)) == len(programs.RELEASES)
