# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of kind's load balancer has the version and the name that kind wants, and an image of others is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.kind import load_balancer, programs, root_file_system
from lab.progress import silent

NAME = f"docker.io/envoyproxy/envoy:v{load_balancer.ENVOY_VERSION}"


@pytest.fixture
def kind_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of kind's sources that names the image."""
    file = tmp_path / load_balancer.SOURCE
    file.parent.mkdir(parents=True)
    file.write_text(f'package loadbalancer\n\nconst Image = "{NAME}"\n')
    monkeypatch.setattr(programs, "kind_sources", lambda _log: tmp_path)
    return file


def install_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_the_name_changes_with_the_version_and_with_the_packages_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [load_balancer.reference()]
    with monkeypatch.context() as patch:
        patch.setattr(root_file_system, "PACKAGES", (*root_file_system.PACKAGES, "strace"))
        names.append(load_balancer.reference())
    monkeypatch.setattr(load_balancer, "WHEELS", {"amd64": "0" * 64})
    names.append(load_balancer.reference())
    assert len(set(names)) == 3


def test_a_kind_with_another_version_of_envoy_is_refused(kind_sources: Path) -> None:
    assert load_balancer.kinds_name(silent) == NAME
    kind_sources.write_text('package loadbalancer\n\nconst Image = "docker.io/envoyproxy/envoy:v9.0.0"\n')
    with pytest.raises(LabError, match=rf"does not name Envoy {load_balancer.ENVOY_VERSION}"):
        load_balancer.kinds_name(silent)


def test_an_image_that_was_not_built_here_is_kept(kind_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_docker(tmp_path, monkeypatch, f'[ "$1" = images ] || exit 1; [ "$4" != {NAME} ] || echo sha256:1')
    load_balancer.ensure(silent)


def test_the_image_of_an_earlier_version_of_this_lab_gets_the_name_no_more(
    kind_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    answers = f'case "$4" in {load_balancer.reference()}) echo sha256:2;; {NAME}) echo sha256:1;; *) echo sha256:1; echo sha256:2;; esac'
    install_docker(tmp_path, monkeypatch, f'if [ "$1" = images ]; then {answers}; else echo "$@" >> {calls}; fi')
    load_balancer.ensure(silent)
    assert calls.read_text() == f"tag {load_balancer.reference()} {NAME}\n"


def test_an_unknown_architecture_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_balancer.archive.platform, "machine", lambda: "riscv64")
    with pytest.raises(LabError, match="no wheel for riscv64"):
        load_balancer._download(tmp_path / "wheel", silent)
