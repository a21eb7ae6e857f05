# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree that must not be released is refused with all reasons, and two builds of a commit have the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools import build, release, wheel
from tools.errors import ToolError
from tools.release import compare, refuse, tag_of
from tools.working_copy import working_copy

VERSION = "7.8.9"


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=maintainer", "-c", "user.email=maintainer@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that can be released."""
    (tmp_path / "changelogs" / "fragments").mkdir(parents=True)
    (tmp_path / "galaxy.yml").write_text(f"version: {VERSION}\n")
    (tmp_path / "README.md").write_text(f"ansible-galaxy collection install dist/onprem-kube_scheduling-{VERSION}.tar.gz\n")
    (tmp_path / "changelogs" / "changelog.yaml").write_text(f"releases:\n  {VERSION}:\n    changes: {{release_summary: The first one.}}\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")


def reasons(root: Path, *, tagged: bool = False) -> list[str]:
    with pytest.raises(ToolError) as error:
        refuse(root, VERSION, tagged=tagged)
    first, *others = str(error.value).splitlines()
    assert first == f"{VERSION} cannot be released:"
    return others


def test_a_committed_tree_with_a_section_in_the_changelog_can_be_released(root: Path) -> None:
    refuse(root, VERSION, tagged=False)
    refuse(root, VERSION, tagged=True)


def test_changes_that_are_not_committed_are_named(root: Path) -> None:
    (root / "README.md").write_text("other\n")
    (root / "new").write_text("x")
    (reason,) = reasons(root)
    assert "not committed: README.md, new. " in reason


def test_an_existing_tag_is_refused_unless_its_files_are_built_again(root: Path) -> None:
    git(root, "tag", "--annotate", tag_of(VERSION), "--message", "x")
    (reason,) = reasons(root)
    assert re.match(r"- the tag v7\.8\.9 exists, on commit [0-9a-f]{12}\. `make release-files` makes its files", reason)
    refuse(root, VERSION, tagged=True)
    (root / "new").write_text("x")
    commit(root)
    (reason,) = reasons(root, tagged=True)
    assert "Check it out " in reason


def test_a_changelog_without_the_version_or_with_more_fragments_is_refused(root: Path) -> None:
    (root / "changelogs" / "fragments" / "0099-more.yml").write_text("minor_changes: [x]\n")
    commit(root)
    (reason,) = reasons(root)
    assert reason.startswith(f"- the section {VERSION} of the changelog lacks fragments: 0099-more.yml. Choose the next version")
    (root / "changelogs" / "changelog.yaml").write_text("releases: {}\n")
    commit(root)
    (reason,) = reasons(root)
    assert reason.startswith(f"- changelogs/changelog.yaml has no section {VERSION}. Write changelogs/fragments/{VERSION}.yml")


def test_all_reasons_are_named_in_one_run(root: Path) -> None:
    (root / "README.md").write_text("dist/onprem-kube_scheduling-7.8.8.tar.gz\n")
    (root / "changelogs" / "changelog.yaml").unlink()
    git(root, "tag", tag_of(VERSION))
    assert len(reasons(root)) == 4 and "README.md (7.8.8). Run make version." in reasons(root)[-1]


@contextmanager
def copy_of_old_files() -> Iterator[Path]:
    """A checkout of another day."""
    with working_copy() as copy:
        for file in copy.rglob("*"):
            os.utime(file, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
        yield copy


@pytest.mark.ci_more
def test_two_builds_of_the_artifact_from_files_of_other_times_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        made.append(build.build(folder))
        monkeypatch.setattr(build, "working_copy", copy_of_old_files)
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        members = archive.getmembers()
    assert [member.name for member in members[:2]] == ["MANIFEST.json", "FILES.json"]
    assert {member.mtime for member in members} == {build.source_date()} and {member.uid for member in members} == {0}


def test_the_time_of_the_artifact_is_that_of_the_commit_or_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    answer = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=build.ROOT, capture_output=True, text=True, check=True)
    assert build.source_date() == int(answer.stdout)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert build.source_date() == 1_700_000_000


@pytest.mark.ci_more
def test_two_builds_of_the_wheel_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = (wheel.build(tmp_path / name) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_files_that_differ_from_the_tag_are_named(tmp_path: Path) -> None:
    same, other, gone = (tmp_path / f"{name}.tar.gz" for name in ("same", "other", "gone"))
    lines = [f"{hashlib.sha256(file.name.encode()).hexdigest()}  {file.name}" for file in (same, other, gone)]
    same.write_bytes(same.name.encode())
    compare(tmp_path, f"a release\n\n{lines[0]}\n")
    other.write_bytes(b"changed")
    with pytest.raises(ToolError) as error:
        compare(tmp_path, "\n".join(lines))
    first, *others = str(error.value).splitlines()
    assert "the files differ " in first
    assert [line.split(":")[0] for line in others] == ["- other.tar.gz", "- gone.tar.gz"] and others[1].endswith("dist/ has no file")
    with pytest.raises(ToolError, match="the tag has no checksums"):
        compare(tmp_path, "")


def test_the_inputs_in_the_notes_are_files_of_the_repository() -> None:
    assert [name for name in release.INPUTS if not (release.ROOT / name).is_file()] == []
