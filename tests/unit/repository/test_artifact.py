# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection holds what users need, and nothing of the workshop."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tools.build import build
from tools.paths import COLLECTIONS
from tools.working_copy import repository_files

WRITTEN_BY_THE_BUILD = {"FILES.json", "MANIFEST.json"}
REQUIRED = {"CHANGELOG.md", "LICENSE", "LICENSES", "README.md", "changelogs", "docs", "meta", "plugins", "requirements.txt"}
ALLOWED = REQUIRED | {"deploy", "examples", "extensions", "playbooks", "roles", "services"}

SCENARIOS = "extensions/molecule/"
"""They need the lab, which is not in the artifact, too."""


@pytest.fixture(scope="module")
def archive_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built artifact."""
    return build(tmp_path_factory.mktemp("artifact"))


@pytest.fixture(scope="module")
def artifact(archive_file: Path) -> set[str]:
    """Names of the files in it."""
    with tarfile.open(archive_file) as archive:
        return {member.name for member in archive.getmembers() if not member.isdir()}


def test_only_allowed_names_at_the_top(artifact: set[str]) -> None:
    top = {name.split("/")[0] for name in artifact} - WRITTEN_BY_THE_BUILD
    assert top - ALLOWED == set()
    assert REQUIRED - top == set()


def test_every_file_of_the_shipped_folders_is_there(artifact: set[str]) -> None:
    shipped = {str(file) for file in repository_files() if file.parts[0] in ALLOWED and file.name != ".gitkeep"}
    assert {name for name in shipped - artifact if not name.startswith(SCENARIOS)} == set()


def test_no_scenario_of_molecule_is_in_the_artifact(artifact: set[str]) -> None:
    assert {name for name in artifact if name.startswith(SCENARIOS)} == set()


def test_nothing_that_a_run_left_behind(artifact: set[str]) -> None:
    left_behind = {name for name in artifact if {"__pycache__", "build", "output"} & set(Path(name).parts) or name.endswith(".pyc")}
    assert left_behind == set()


@pytest.mark.ci_more
@pytest.mark.parametrize("playbook", ["rebalance", "rescue"])
def test_a_playbook_of_the_installed_collection_finds_the_declared_variables(archive_file: Path, tmp_path: Path, playbook: str) -> None:
    kubernetes = tmp_path / "ansible_collections" / "kubernetes"
    kubernetes.parent.mkdir()
    kubernetes.symlink_to(COLLECTIONS / "ansible_collections" / "kubernetes")
    answer = _play_installed(archive_file, tmp_path, playbook, "-e", f"{playbook}_nowhere=1")
    assert answer.returncode == 2
    assert f"There is no variable {playbook}_nowhere. The variables are {playbook}_" in answer.stdout


@pytest.mark.ci_more
def test_without_kubernetes_core_a_playbook_says_how_to_install_it(archive_file: Path, tmp_path: Path) -> None:
    answer = _play_installed(archive_file, tmp_path, "rebalance")
    output = answer.stdout + answer.stderr
    assert answer.returncode == 2 and "ansible-galaxy collection install 'kubernetes.core:" in output, output
    assert "Traceback" not in output and "probably a bug" not in output, output


def _play_installed(archive_file: Path, folder: Path, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook of the artifact by name. The folder has the other collections."""
    with tarfile.open(archive_file) as archive:
        archive.extractall(folder / "ansible_collections" / "onprem" / "kube_scheduling", filter="data")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), f"onprem.kube_scheduling.{playbook}", *arguments]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_services_start_from_an_unpacked_artifact(archive_file: Path, tmp_path: Path) -> None:
    with tarfile.open(archive_file) as archive:
        archive.extractall(tmp_path.joinpath("ansible_collections", "onprem", "kube_scheduling"), filter="data")
    assert "--housekeeping-interval" in _output_of(tmp_path, "rescuer", "--help")
    agents = ", ".join(f"{{name: {name}}}" for name in ("network_traffic", "safe_overload", "pigeon", "reward", "budgets"))
    sources = "{prometheus: {urls: ['http://127.0.0.1:9090']}, kubernetes: {}}"
    (tmp_path / "extender.yaml").write_text(f"sources: {sources}\nprofiles: {{all: {{agents: [{agents}]}}}}\n")
    assert "extender.yaml can be used" in _output_of(tmp_path, "extender", "--config=extender.yaml", "--check-config")


def _output_of(folder: Path, service: str, *flags: str) -> str:
    command = [sys.executable, "-m", f"ansible_collections.onprem.kube_scheduling.services.{service}", *flags]
    answer = subprocess.run(command, env={"PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_artifact_has_the_files_that_the_services_need_beside_their_sources(artifact: set[str]) -> None:
    others = {name for name in artifact if name.startswith("services/") and not name.endswith(".py")}
    of_extender = {"services/extender/requirements.txt", "services/extender/prometheus_rules.yml"}
    assert others == of_extender | {f"services/{name}" for name in ("Containerfile", "requirements.txt", "requirements-build.txt")}
