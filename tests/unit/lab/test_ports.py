# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Port reservations: distinct between clusters, kept while the folder exists, released after that."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lab import ports
from lab.errors import LabError


def folder(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir()
    return path


def test_two_clusters_get_different_ports_until_one_is_released(tmp_path: Path) -> None:
    left, right = folder(tmp_path, "left"), folder(tmp_path, "right")
    first, second = ports.reserve(left, 6), ports.reserve(right, 6)
    assert not set(first) & set(second)
    ports.release(left)
    assert set(ports.reserve(folder(tmp_path, "third"), 6)) & set(first)


def test_a_vanished_folder_loses_its_ports(tmp_path: Path) -> None:
    gone = folder(tmp_path, "gone")
    before = ports.reserve(gone, 3)
    gone.rmdir()
    assert ports.reserve(folder(tmp_path, "next"), 3) == before


def test_busy_ports_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        busy = server.getsockname()[1]
        monkeypatch.setenv("LAB_PORTS", f"{busy}-{busy}")
        with pytest.raises(LabError, match=r"1 free TCP ports are needed in .*, found 0. Set LAB_PORTS"):
            ports.reserve(folder(tmp_path, "only"), 1)


@pytest.mark.parametrize("text", ["20000", "a-b", "5-4", "1-70000"])
def test_a_bad_range_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LAB_PORTS", text)
    with pytest.raises(LabError, match=f"LAB_PORTS='{text}': write a range such as 20000-31999"):
        ports.reserve(folder(tmp_path, "bad"), 1)
