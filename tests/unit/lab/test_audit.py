# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks in the audit log, which the API server writes while it is read."""

from __future__ import annotations

import json
from pathlib import Path

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


@pytest.mark.parametrize("written", [1, 20, len(line("second")) - 1])
def test_the_line_that_a_killed_server_was_writing_is_left_out_and_the_next_one_is_read(tmp_path: Path, written: int) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(line("first") + line("second")[:written] + line("third") + line("fourth"))
    assert [event.name for event in log.events()] == ["first", "third", "fourth"]
