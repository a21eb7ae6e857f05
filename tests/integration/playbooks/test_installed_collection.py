# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The tarball installs into an empty environment, without the internet, and the demo runs from what is installed.

The environment has only ansible-core and the requirements.txt of the collection. Of other collections, only kubernetes.core is there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from lab import demo
from tests.guide_blocks import blocks
from tools import build, venvs
from tools.collection_version import current
from tools.paths import COLLECTIONS, NAME, NAMESPACE, ROOT

README = Path("README.md")
HERE = "tests/integration/playbooks/test_installed_collection.py"
COLLECTION = f"{NAMESPACE}.{NAME}"
NEEDS_ANOTHER_COLLECTION = {"awx"}
"""It has modules of awx.awx, which only its users install (docs/awx.md)."""


@dataclass(frozen=True)
class Installation:
    """An environment of Python, and the home folder of its user."""

    programs: Path
    home: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"HOME": str(self.home), "PATH": f"{self.programs}{os.pathsep}/usr/bin{os.pathsep}/bin", "LANG": "C.UTF-8"}

    @property
    def folder(self) -> Path:
        return self.home / ".ansible" / "collections" / "ansible_collections"

    def run(self, command: str) -> str:
        """Run a command of a shell outside of the repository, and return its output."""
        answer = subprocess.run(["bash", "-ec", command], cwd=self.home, env=self.environment, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The collection, installed by the command of README from the tarball of this checkout."""
    home = tmp_path_factory.mktemp("home")
    core = home / "ansible-core.txt"
    core.write_text(f"ansible-core=={version('ansible-core')}\n")
    constraints = [ROOT / "tools" / "constraints.txt"]
    venv = venvs.ensure("installed", Path(sys.executable), [core, ROOT / "requirements.txt"], constraints)
    there = Installation(venv / "bin", home)
    # The only collection that the tarball depends on. Its archive is not available without Galaxy, so that an installed one is copied.
    shutil.copytree(COLLECTIONS / "ansible_collections" / "kubernetes" / "core", there.folder / "kubernetes" / "core")
    (home / "dist").mkdir()
    build.build(home / "dist")
    (command,) = [block.script.strip() for block in blocks(README) if block.mark == f"run: {HERE}"]
    there.run(f"{command} --offline")
    return there


def test_the_tarball_installs_beside_kubernetes_core_without_the_internet(installation: Installation) -> None:
    listed = json.loads(installation.run("ansible-galaxy collection list --format json"))
    assert set(listed) == {str(installation.folder)}
    assert listed[str(installation.folder)][COLLECTION] == {"version": current(ROOT)}
    assert set(listed[str(installation.folder)]) == {COLLECTION, "kubernetes.core"}
    assert "Unable to verify" not in installation.run(f"ansible-galaxy collection verify {COLLECTION} --offline")


def test_the_installed_documentation_and_playbooks_are_found_by_their_names(installation: Installation) -> None:
    document = json.loads(installation.run(f"ansible-doc --json {COLLECTION}.k8s_spread_check"))
    assert document[f"{COLLECTION}.k8s_spread_check"]["doc"]["version_added"]
    playbooks = {file.stem for file in (ROOT / "playbooks").glob("*.yml")} - NEEDS_ANOTHER_COLLECTION
    assert "rebalance" in playbooks
    names = sorted(playbooks)
    checked = installation.run(f"ansible-playbook {' '.join(f'{COLLECTION}.{name}' for name in names)} --syntax-check -i localhost,")
    found = [Path(line.partition(": ")[2]) for line in checked.splitlines() if line.startswith("playbook: ")]
    assert found == [installation.folder / NAMESPACE / NAME / "playbooks" / f"{name}.yml" for name in names]


@pytest.mark.full
def test_the_demo_runs_from_the_installed_collection(
    installation: Installation, lab_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_HOME", str(lab_folder / "demo"))
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    ansible = demo.Ansible(installation.programs, f"{COLLECTION}.rebalance", installation.home, installation.environment)
    demo.run(workers=6, keep=False, ansible=ansible)
    output = capfd.readouterr().out
    assert "The cluster came out as it should" in output
    assert "shop/web" in output and "collapsed → healthy" in output
