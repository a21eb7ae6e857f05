# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A root file system has no unneeded files, and an error names what a user can do. debootstrap itself runs in the scenario `kind`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.kind import debootstrap, packages
from lab.progress import silent

# Makes the folder that its last argument names, and remembers the arguments.
PROGRAM = """#!/bin/sh
for root; do :; done
mkdir -p "$root/usr/share/man/man1" "$root/var/cache/apt" "$root/etc"
touch "$root/usr/share/man/man1/ls.1" "$root/var/cache/apt/a.deb"
ln -s /etc "$root/usr/share/doc"
echo "$@" > "$root/etc/arguments"
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "debootstrap"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    path.chmod(0o755)
    monkeypatch.setattr(packages, "PATHS", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setattr(debootstrap.os, "geteuid", lambda: 0)
    return path


def make(root: Path) -> None:
    unneeded = ("usr/share/man", "usr/share/doc", "var/cache/apt/*", "absent/*")
    debootstrap.make(root, ("python3", "jq"), unneeded, silent, what="base image x", install=False, alternative=", or else")


def test_the_packages_are_included_and_unneeded_files_are_removed(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(root)
    assert (root / "etc/arguments").read_text() == f"--variant=minbase --include=python3,jq {debootstrap.RELEASE} {root}\n"
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()) == ["etc/arguments"]
    assert (root / "var/cache/apt").is_dir()


def test_a_failure_has_its_last_lines_and_a_remedy(program: Path, tmp_path: Path) -> None:
    program.write_text("#!/bin/sh\necho 'E: no mirror'\nexit 3\n")
    text = r"debootstrap bookworm failed \(exit code 3\): E: no mirror\nCheck that debootstrap reaches a Debian mirror"
    with pytest.raises(LabError, match=text):
        make(tmp_path / "root")


def test_a_user_who_is_not_root_reads_the_alternative(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debootstrap.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"^base image x: debootstrap needs root: .*, or else$"):
        make(tmp_path / "root")
