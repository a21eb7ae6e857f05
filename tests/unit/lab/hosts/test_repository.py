# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of a repository has the fields of its packages and the checksums of their files."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.hosts import repository

CONTROL = "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a package\n"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")
def test_the_index_lists_every_package_with_its_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        control = tmp_path / name / "DEBIAN" / "control"
        control.parent.mkdir(parents=True)
        control.write_text(CONTROL.format(name=name))
        subprocess.run(["dpkg-deb", "--build", str(tmp_path / name), str(tmp_path / f"{name}.deb")], check=True, capture_output=True)
    first, second = repository.index(tmp_path).split("\n\n")
    content = (tmp_path / "one.deb").read_bytes()
    assert first.splitlines()[0] == "Package: one" and second.splitlines()[0] == "Package: two"
    assert first.splitlines()[-3:] == ["Filename: ./one.deb", f"Size: {len(content)}", f"SHA256: {hashlib.sha256(content).hexdigest()}"]
