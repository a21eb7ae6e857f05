# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a Python takes only what really runs, and says what to do when nothing does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import interpreters
from tools.errors import ToolError


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH; there is no pyenv."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return folder


def program(path: Path, version: str | None) -> Path:
    """A stand-in for an interpreter of that version; None: a shim for a version that is not selected."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
    path.chmod(0o755)
    return path


def test_newest_preferred_version_is_used(on_path: Path) -> None:
    program(on_path / "python3", "3 11")
    program(on_path / "python3.12", "3 12")
    newest = program(on_path / "python3.13", "3 13")
    assert interpreters.choose() == newest


def test_a_shim_that_does_not_run_gives_way_to_the_installed_version(on_path: Path, tmp_path: Path) -> None:
    program(on_path / "python3.13", None)
    installed = program(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", "3 13")
    assert interpreters.choose() == installed


def test_an_older_python3_is_enough(on_path: Path) -> None:
    python = program(on_path / "python3", "3 11")
    assert interpreters.choose() == python


def test_a_named_interpreter_is_taken(on_path: Path, tmp_path: Path) -> None:
    program(on_path / "python3.13", "3 13")
    named = program(tmp_path / "mine", "3 12")
    assert interpreters.choose(str(named)) == named


def test_too_old(on_path: Path) -> None:
    program(on_path / "python3", "3 9")
    with pytest.raises(ToolError, match=r"python3 is Python 3\.9, and Python 3\.11 or newer is needed.*BASE_PYTHON="):
        interpreters.choose()


def test_a_named_interpreter_that_does_not_run(on_path: Path) -> None:
    with pytest.raises(ToolError, match=r"/nowhere/python does not run"):
        interpreters.choose("/nowhere/python")


def test_the_program_behind_a_link(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert interpreters.real_path(link) == Path(sys.executable).resolve()
