# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every test has a cache folder of its own, so that nothing depends on what this machine has built before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

# A go command that prints `go env GOVERSION`, `go env GOMODCACHE GOCACHE` and the list of packages. It "builds" programs with the names
# that Go gives them, up to a package of a file `stops-at-NAME` or `fails-at-NAME`.
FAKE_GO = """#!/bin/sh
case "$1 $2" in
  "env GOVERSION") echo go1.26.9;;
  "env GOMODCACHE") echo "$FAKE/modules"; echo "$FAKE/build";;
  "list -deps")
    shift 4
    [ "$1" != -tags ] || shift 2
    for package; do echo "$package|false|/||"; done;;
  build*)
    while [ "$1" != -o ]; do shift; done
    folder=$2
    shift 2
    echo "$PWD $CGO_ENABLED $GOTOOLCHAIN $*" >> "$FAKE/calls"
    for package; do
      echo "$package"
      [ ! -e "$FAKE/stops-at-$(basename "$package")" ] || exec sleep 60
      [ ! -e "$FAKE/fails-at-$(basename "$package")" ] || { echo "undefined: x"; exit 1; }
      name=$(basename "${package%/v3}")
      [ -e "$FAKE/without-$name" ] || { echo "#!/bin/sh" > "$folder/$name"; chmod +x "$folder/$name"; }
    done;;
esac
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for variable in ("LAB_BIN_DIR", "LAB_KUBERNETES", "LAB_PROGRAMS"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH besides the system's shell."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda name: str(folder / name) if (folder / name).exists() else None)
    return folder


@pytest.fixture
def go_calls(path_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FAKE_GO is on PATH. Its builds are the lines of this file."""
    put(path_folder, "go", FAKE_GO)
    monkeypatch.setenv("FAKE", str(tmp_path))
    return tmp_path / "calls"


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
