# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of the execution environment can be built, and has what the collections need."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.awx.launch import Packages
from tests.integration.workloads import deployment, pile_up
from tools import execution_environment
from tools.build import build
from tools.paths import ROOT


def requirements_in(file: Path) -> dict[str, Requirement]:
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in map(Requirement, lines)}


def test_the_context_has_the_artifact_of_this_version_and_all_pins(tmp_path: Path) -> None:
    artifact = build(tmp_path)
    definition = execution_environment.definition()
    named = [Path(entry["src"]).name for entry in definition["additional_build_files"]]
    named += [Path(entry["name"]).name for entry in definition["dependencies"]["galaxy"]["collections"] if entry.get("type") == "file"]
    assert named == [artifact.name] * 2

    context = execution_environment.create_context(tmp_path, artifact)
    collections = yaml.safe_load((context / "_build" / "requirements.yml").read_text())["collections"]
    assert [entry["name"] for entry in collections] == ["kubernetes.core", f"collections/{artifact.name}"]
    # A path in this file starts in the folder that the image has as /build.
    assert (context / "_build" / "collections" / artifact.name).read_bytes() == artifact.read_bytes()
    text = next(context.glob("*file")).read_text()
    for line in ('ARG PYCMD="/usr/bin/python3.12"', "COPY _build /build", "WORKDIR /build"):
        assert line in text
    assert re.search(r"ansible-core==\d+\.\d+\.\d+ ansible-runner==\d+\.\d+\.\d+", text.replace('"', " ").replace("'", " "))


def test_each_requirement_of_the_collections_is_pinned_to_the_tested_version(packages: Packages) -> None:
    listed = list(map(Requirement, execution_environment.introspect(packages.collections)["python"]))
    pinned = requirements_in(ROOT / "awx" / "requirements.txt")
    for requirement in listed:
        (pin,) = pinned[requirement.name.lower().replace("_", "-")].specifier
        assert pin.operator == "==" and requirement.specifier.contains(pin.version), requirement
    extender = requirements_in(ROOT / "services" / "extender" / "requirements.txt")
    assert set(pinned) == {requirement.name.lower().replace("_", "-") for requirement in listed} | set(extender)
    tested = requirements_in(ROOT / "tools" / "constraints.txt")
    assert {name: pin.specifier for name, pin in pinned.items() if name in tested} == {
        name: tested[name].specifier for name in pinned if name in tested
    }


def test_the_image_gets_only_the_packages_of_the_operating_system_that_are_listed(packages: Packages) -> None:
    system = execution_environment.introspect(packages.collections)["system"]
    assert system == ["openssh-clients [platform:rpm]", "sshpass [platform:rpm]"]


def test_the_packages_agree_with_each_other(packages: Packages) -> None:
    checked = subprocess.run([str(packages.venv / "bin" / "python"), "-m", "pip", "check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_ansible_navigator_runs_a_check_without_a_container_engine(
    lab_cluster: Cluster, namespaces: NamespaceFactory, packages: Packages, tmp_path: Path
) -> None:
    namespace = namespaces("navigated", annotations={"kube-scheduling.onprem/spread": "allow"})
    pile_up(lab_cluster, deployment(namespace, "web", 3))
    (tmp_path / "clusters.yml").write_text(yaml.safe_dump({"all": {"hosts": {"cluster": {"rebalance_namespaces": [namespace]}}}}))
    (command,) = re.findall(r"^ansible-navigator run .*$", (ROOT / "docs" / "awx.md").read_text(), re.MULTILINE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    environment |= {
        "ANSIBLE_COLLECTIONS_PATH": str(packages.collections),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(lab_cluster.kubeconfig),
        "PATH": f"{packages.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    words = [str(execution_environment.tool("ansible-navigator")), *command.split()[1:]]
    words[words.index("awx/project/rebalance.yml")] = str(ROOT / "awx" / "project" / "rebalance.yml")
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"deploy {namespace}/web .*collapsed", done.stdout), done.stdout
