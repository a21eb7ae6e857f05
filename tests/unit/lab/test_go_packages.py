# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a Go build are read from the output of Go, and the rest of a build is estimated from what is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import go_packages
from lab.go_packages import Package, Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the clock."""
    now = [100.0]
    monkeypatch.setattr(go_packages.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
        ("go.etcd.io/etcd/server/v3", "server"),
        ("example.org/tool/v12", "tool"),
        ("example.org/tool/v1", "v1"),
        ("example.org/tool/v02", "v02"),
        ("v2", "v2"),
    ],
)
def test_the_name_of_a_program_is_the_one_that_go_gives_it(path: str, name: str) -> None:
    assert go_packages.executable(path) == name


def test_packages_are_read_with_the_size_of_their_sources(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text("12345")
    (tmp_path / "b.go").write_text("123")
    output = f"go: downloading x v1.0.0\nlib|true|{tmp_path}|a.go,b.go|unsafe\ncmd|false|{tmp_path}|a.go|lib,os\nunsafe|true|{tmp_path}||\n"
    assert go_packages.read(output) == {
        "lib": Package(program=False, size=8, imports=("unsafe",)),
        "cmd": Package(program=True, size=5, imports=("lib", "os")),
        "unsafe": Package(program=False, size=0, imports=("",)),
    }


def test_the_rest_is_estimated_from_the_speed_up_to_now(clock: list[float]) -> None:
    packages = {f"lib{number}": Package(program=False, size=10, imports=()) for number in range(1900)}
    packages["large"] = Package(program=True, size=1000, imports=tuple(packages))
    progress = Progress(packages)
    compiled = "\n".join(f"lib{number}" for number in range(1000))
    clock[0] += 10
    assert progress(compiled) == "(1,000 of 1,901 packages)"
    clock[0] += 90
    assert progress(compiled) == "(1,000 of 1,901 packages, about 2 minutes left)"
    assert progress(f"{compiled}\nlarge") == "(1,901 of 1,901 packages, less than a minute left)"
    assert progress("go: downloading") == "(0 of 1,901 packages)"


def test_packages_in_gos_cache_do_not_make_the_estimate_shorter(clock: list[float]) -> None:
    packages = {
        "cached": Package(program=False, size=1000, imports=()),
        "compiled": Package(program=False, size=100, imports=("cached", "of another module")),
        "next": Package(program=True, size=300, imports=("compiled",)),
    }
    progress = Progress(packages)
    clock[0] += 40
    assert progress("compiled") == "(2 of 3 packages, about 2 minutes left)"
