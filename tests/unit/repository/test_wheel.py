# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel has the programs that need no Ansible, and requires what these import."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.style.sources import libraries_of
from tools import wheel
from tools.paths import ROOT
from tools.working_copy import repository_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COLLECTION = "ansible_collections/onprem/kube_scheduling"


def requirements(*files: str) -> dict[str, Requirement]:
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {found.name: found for found in map(Requirement, lines)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_module_utils_and_the_programs(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {source for source in repository_files() if source.parts[0] == "services" or source.parts[:2] == ("plugins", "module_utils")}
    left_out = {source for source in sources if source.parent == Path("services") and source.name != "__main__.py"}
    assert {source.name.split("_")[0].split("-")[0] for source in left_out} == {
        "Containerfile",
        "image",
        "requirements.txt",
        "requirements",
    }
    assert names == {f"{COLLECTION}/{source}" for source in sources - left_out}


def test_the_wheel_has_the_version_of_the_collection_and_the_programs_of_kubectl(file: Path) -> None:
    version = next(line.split()[1] for line in (ROOT / "galaxy.yml").read_text().splitlines() if line.startswith("version:"))
    assert file.name == f"onprem_kube_scheduling-{version}-py3-none-any.whl"
    assert set(PROJECT["scripts"]) == {"kubectl-spread", "kubectl_complete-spread"}


def test_it_requires_the_versions_of_requirements_txt() -> None:
    collection = requirements("requirements.txt")
    own = {found.name: found for found in map(Requirement, PROJECT["dependencies"])}
    assert own == {name: collection[name] for name in own}
    assert libraries_of("plugins/module_utils") | libraries_of("services/kubectl_spread") <= set(own)
    services = set(map(Requirement, PROJECT["optional-dependencies"]["services"]))
    extender = requirements("services/extender/requirements.txt")
    assert services == {collection["prometheus_client"], *extender.values()}
