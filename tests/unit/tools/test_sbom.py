# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of the libraries in the image has each pinned library with its hashes. No network is needed here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.image_context import locked_hashes

from tools import sbom
from tools.errors import ToolError

PROGRAM = """#!/bin/sh
for file; do :; done
cp {folder}/made.json "$file"
"""


def component(name: str, version: str, *, hashed: bool = True) -> dict[str, object]:
    """Return a library in the form of cyclonedx-py."""
    hashes = [{"alg": "SHA-256", "content": "0" * 64}] if hashed else []
    return {"name": name, "version": version, "externalReferences": [{"type": "distribution", "hashes": hashes}]}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the program gives as its result."""
    (tmp_path / "bin").mkdir()
    cyclonedx = tmp_path / "bin" / "cyclonedx-py"
    cyclonedx.write_text(PROGRAM.format(folder=tmp_path))
    cyclonedx.chmod(0o755)
    monkeypatch.setattr(sbom.venvs, "ensure", lambda *_: tmp_path)
    return tmp_path / "made.json"


def test_all_libraries_of_the_lock_are_read() -> None:
    assert {name for name, _version in sbom.pinned()} == set(locked_hashes(sbom.LOCK)) != set()


def test_a_list_without_a_library_or_without_its_hashes_is_refused(program: Path, tmp_path: Path) -> None:
    libraries = sorted(sbom.pinned())
    program.write_text(json.dumps({"components": [component(*library) for library in libraries]}))
    sbom.write(tmp_path / "sbom.json")
    (first, version), second = libraries[0], libraries[1]
    made = [component(first, version, hashed=False), component(second[0], "0"), *(component(*library) for library in libraries[2:])]
    program.write_text(json.dumps({"components": made}))
    with pytest.raises(
        ToolError, match=f"does not have all libraries of requirements.txt with their hashes: {first} {version}, {second[0]}"
    ):
        sbom.write(tmp_path / "sbom.json")
