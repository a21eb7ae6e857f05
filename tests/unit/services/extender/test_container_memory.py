# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A second extender starts in a container only if the memory limit has space for both."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.container_memory import MIB, memory_shortage


def cgroup(folder: Path, limit: str, *, anon: int, file: int = 0, kernel: int = 1) -> Path:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"anon {anon * MIB}\nfile {file * MIB}\nkernel {kernel * MIB}\nkernel_stack 0\n")
    return folder


@pytest.mark.parametrize(
    ("limit", "anon", "file"),
    [(192, 40, 0), (192, 40, 140), (192, 95, 0), (130, 64, 0)],
)
def test_second_extender_starts_if_the_limit_has_space_for_both(tmp_path: Path, limit: int, anon: int, file: int) -> None:
    assert memory_shortage(cgroup(tmp_path, str(limit * MIB), anon=anon, file=file)) == ""


@pytest.mark.parametrize(
    ("limit", "anon", "needed", "left", "wanted"), [(192, 110, 111, 81, 223), (100, 40, 64, 59, 106), (10, 40, 64, 0, 106)]
)
def test_second_extender_does_not_start_otherwise(tmp_path: Path, limit: int, anon: int, needed: int, left: int, wanted: int) -> None:
    text = memory_shortage(cgroup(tmp_path, str(limit * MIB), anon=anon))
    assert f" {needed} MiB, " in text and f" {left} of {limit} MiB left" in text and f" to {wanted} MiB" in text


def test_container_without_a_limit_has_space(tmp_path: Path) -> None:
    assert memory_shortage(cgroup(tmp_path, "max", anon=10_000)) == ""
    assert memory_shortage(tmp_path / "absent") == ""
