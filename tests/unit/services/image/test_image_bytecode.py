# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image has byte code of the modules that its programs import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services import image_bytecode

PROGRAM = Path(str(image_bytecode.__file__))
FILES = {
    "needed/__init__.py": "from . import part",
    "needed/part.py": "",
    "needed/unused.py": "",
    "other.py": "",
    "ansible_collections/onprem/kube_scheduling/services/one.py": "import needed",
    "ansible_collections/onprem/kube_scheduling/plugins/module_utils/kube/client/ansible_connection.py": "import no_ansible_here",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with libraries and a collection."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", str(PROGRAM), str(root)], capture_output=True, text=True)


def test_only_modules_that_are_imported_have_byte_code(root: Path) -> None:
    assert run(root).returncode == 0
    assert {file.name.partition(".")[0] for file in root.rglob("*.pyc")} == {"__init__", "part", "one"}


def test_byte_code_is_used_although_the_time_of_the_source_differs(root: Path) -> None:
    run(root)
    (root / "needed" / "part.py").write_text("raise ValueError('the source is read')")
    done = subprocess.run([sys.executable, "-c", "import needed"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_module_that_cannot_be_imported_ends_the_build(root: Path) -> None:
    (root / "needed" / "part.py").write_text("import a_missing_library")
    done = run(root)
    assert done.returncode == 1 and "No module named 'a_missing_library'" in done.stderr
