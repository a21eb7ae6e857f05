# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are replaced as a whole, and what worked before is restored, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes, HostFile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.previous import Previous


class Files:
    """Two files in a folder, and their earlier state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.old, self.new = folder / "old", folder / "new"
        self.previous = Previous(str(folder / "record"), [str(self.old), str(self.new)])

    def write(self, text: str) -> None:
        for file in (self.old, self.new):
            HostFile(str(file), text).write()

    def texts(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in sorted(self.folder.iterdir())}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_files_of_an_interrupted_run_are_restored_by_the_next_one(files: Files) -> None:
    files.old.write_text("first")
    assert not files.previous.is_kept() and files.previous.state() == {}
    files.previous.keep({"package": "1.5.0-1"})
    files.write("broken")
    files.previous.keep({"package": "1.9.0-1"})
    assert files.previous.is_kept() and files.previous.state() == {"package": "1.5.0-1"}
    files.write("broken, too")
    files.previous.restore()
    files.previous.restore()
    assert files.old.read_text() == "first" and not files.new.exists()
    files.previous.forget()
    assert files.texts() == {"old": "first"}


def test_earlier_files_are_removed_after_a_start(files: Files) -> None:
    files.old.write_text("first")
    files.previous.keep({})
    files.write("second")
    files.previous.forget()
    assert files.texts() == {"new": "second", "old": "second"}
    files.previous.keep({})
    files.previous.restore()
    files.previous.forget()
    files.previous.forget()
    assert files.texts() == {"new": "second", "old": "second"}


def test_files_that_were_removed_are_restored_also_by_a_run_with_other_files(files: Files) -> None:
    files.write("first")
    files.previous.keep({})
    files.old.unlink()
    other = Previous(files.previous.record, [str(files.folder / "other")])
    other.restore()
    other.forget()
    assert files.texts() == {"new": "first", "old": "first"}


def test_kept_files_without_a_record_are_replaced(files: Files) -> None:
    files.write("second")
    (files.folder / "old.kube-scheduling-previous").write_text("of a run that was interrupted while it kept the files")
    files.previous.keep({})
    files.previous.restore()
    assert files.old.read_text() == "second"


def test_file_is_compared_by_content_and_mode(tmp_path: Path) -> None:
    file = HostFile(str(tmp_path / "file"), "text\n", mode=0o640)
    assert not file.is_there()
    file.write()
    assert file.is_there() and not HostFile(file.path, "other\n", mode=0o640).is_there() and not HostFile(file.path, "text\n").is_there()


def test_changes_are_counted_and_shown_and_made_only_without_check_mode(tmp_path: Path) -> None:
    file, secret = HostFile(str(tmp_path / "a" / "file"), "text\n"), HostFile(str(tmp_path / "a" / "secret"), "word\n", shown=False)
    for dry in (True, False, False):
        before = file.is_there()
        changes = Changes(dry)
        changes.make_folder(str(tmp_path / "a"))
        written = [changes.put(file), changes.put(secret)]
        assert written == [not before] * 2 and changes.changed is not before and file.is_there() is not dry
        shown = {"before": "", "after": "text\n", "before_header": file.path, "after_header": file.path}
        assert changes.diffs == [shown] * (not before)
    changes = Changes(False)
    changes.remove_empty(str(tmp_path / "a"))
    assert not changes.changed and changes.remove(file.path) and not changes.remove(file.path) and changes.remove(secret.path)
    changes.remove_empty(str(tmp_path / "a"))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "other").touch()
    with pytest.raises(OSError, match="file"):
        HostFile(str(tmp_path / "file"), "text").write()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
