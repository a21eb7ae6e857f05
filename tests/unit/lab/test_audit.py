# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks in the audit log, which the API server writes while it is read."""

from __future__ import annotations

import io
import json
from pathlib import Path, PosixPath
from typing import Any

import pytest

from lab.audit import COMPLETE, AuditLog


def line(name: str) -> bytes:
    event = {
        "kind": "Event",
        "stage": COMPLETE,
        "verb": "get",
        "requestURI": f"/api/v1/nodes/{name}",
        "objectRef": {"resource": "nodes", "name": name},
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("written", [0, 1, 20, len(line("second")) - 1])
def test_a_mark_within_a_line_is_after_that_line(tmp_path: Path, written: int) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(line("first") + line("second")[:written])
    mark = log.mark()
    log.path.write_bytes(line("first") + line("second") + line("third"))
    assert [event.name for event in log.events(since=mark)] == (["second", "third"] if not written else ["third"])


def test_a_line_without_its_end_is_not_read(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(line("first") + line("second")[:-1])
    assert [event.name for event in log.events()] == ["first"]


class GrowingFile(io.FileIO):
    """The server writes `rest` when a reader has reached the end of the file."""

    rest: bytes

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        if not count and self.rest:
            with Path(self.name).open("ab") as file:
                file.write(self.rest)
            self.rest = b""
        return count


class GrowingPath(PosixPath):
    rest: bytes

    def open(self, *_args: Any, **_options: Any) -> io.BufferedReader:
        stream = GrowingFile(str(self))
        stream.rest = self.rest
        return io.BufferedReader(stream)


@pytest.mark.parametrize("in_second", [True, False])
@pytest.mark.parametrize("written", [1, 20, len(line("second")) - 1])
def test_a_line_whose_rest_is_written_between_two_reads_is_not_read(tmp_path: Path, written: int, in_second: bool) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line("first") + line("second")[:written])
    growing = GrowingPath(file)
    growing.rest = line("second")[written:] + line("third")
    since = len(line("first")) + 1 if in_second else 0
    assert [event.name for event in AuditLog(growing).events(since=since)] == ([] if in_second else ["first"])
    assert file.read_bytes() == line("first") + line("second") + line("third"), "the rest was not written during the reads"
    assert [event.name for event in AuditLog(file).events(since=since)] == (["third"] if in_second else ["first", "second", "third"])


@pytest.mark.parametrize("written", [1, 20, len(line("second")) - 1])
def test_the_line_that_a_killed_server_was_writing_is_left_out_and_the_next_one_is_read(tmp_path: Path, written: int) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(line("first") + line("second")[:written] + line("third") + line("fourth"))
    assert [event.name for event in log.events()] == ["first", "third", "fourth"]
