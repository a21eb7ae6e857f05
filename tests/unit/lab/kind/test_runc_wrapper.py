# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wrapper of runc removes one capability, and only from the file that this call reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kind import runc_wrapper

CAPABILITIES = {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "effective": ["CAP_SYS_RESOURCE", "CAP_KILL"], "ambient": None}
LEFT = {"bounding": ["CAP_CHOWN"], "effective": ["CAP_KILL"], "ambient": None}


@pytest.mark.parametrize(
    ("arguments", "file", "content"),
    [
        (["--root", "/r", "create", "--bundle", "B", "id"], "config.json", {"process": {"capabilities": CAPABILITIES}}),
        (["run", "-b", "B", "id"], "config.json", {"process": {"capabilities": CAPABILITIES}}),
        (["exec", "--process", "B/process.json", "id"], "process.json", {"capabilities": CAPABILITIES}),
    ],
)
def test_the_capability_is_removed_and_runc_gets_the_same_arguments(
    tmp_path: Path, arguments: list[str], file: str, content: dict[str, object]
) -> None:
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / file).write_text(json.dumps(content))
    (tmp_path / "runc").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "runc").chmod(0o755)
    command = [sys.executable, "-I", "-S", runc_wrapper.__file__, *arguments]
    result = subprocess.run(command, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert result.stdout.split() == arguments
    found = json.loads((tmp_path / "B" / file).read_text())
    assert found.get("process", found)["capabilities"] == LEFT


@pytest.mark.parametrize("arguments", [["state", "id"], ["kill", "id", "9"], ["--version"]])
def test_other_calls_read_no_file(arguments: list[str]) -> None:
    assert runc_wrapper.specification(["runc", *arguments]) is None
