# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a node image changes with its content, and its containerd is configured for Debian's version."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab import binaries
from lab.errors import LabError
from lab.kind import node_image, programs, root_file_system
from lab.progress import silent

CONTAINERD = """version = 2

[proxy_plugins]
[proxy_plugins."fuse-overlayfs"]
  type = "snapshot"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.9"
  restrict_oom_score_adj = false
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  base_runtime_spec = "/etc/containerd/cri-base.json"
  runtime_type = "io.containerd.runc.v2"
"""


def test_containerd_gets_the_pause_image_and_no_setting_that_its_version_lacks() -> None:
    assert (
        node_image.containerd_config(CONTAINERD, "registry.k8s.io/pause:3.10.2")
        == """version = 2


[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10.2"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
    )


def test_the_name_changes_with_the_packages_and_with_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [node_image.reference()]
    with monkeypatch.context() as patch:
        patch.setattr(root_file_system, "PACKAGES", (*root_file_system.PACKAGES, "strace"))
        names.append(node_image.reference())
    monkeypatch.setattr(programs, "PAUSE", replace(programs.PAUSE, stamps={"main.version": "2"}))
    names.append(node_image.reference())
    assert len(set(names)) == 3
    assert all(name.startswith(f"{node_image.REPOSITORY}:v{binaries.KUBERNETES_VERSION}-") for name in names)


def test_a_user_who_is_not_root_is_told_to_name_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_image, "_has", lambda _: False)
    monkeypatch.setattr(node_image.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"only root can build it.*KUBE_SCHEDULING_KIND_IMAGE"):
        node_image.ensure(silent)


def test_the_versions_are_those_in_go_mod() -> None:
    assert f"\tk8s.io/kubernetes v{binaries.KUBERNETES_VERSION} " in (programs.NODE.folder / "go.mod").read_text()
    assert f"sigs.k8s.io/kind v{programs.KIND_VERSION} " in (programs.KIND.folder / "go.mod").read_text()
    assert f"github.com/coredns/coredns v{programs.COREDNS_VERSION}" in (programs.COREDNS.folder / "go.mod").read_text()


def test_the_programs_of_a_simulated_cluster_do_not_include_those_of_kind() -> None:
    simulated = {program.name for program in binaries.CLUSTER.programs}
    modules = (programs.NODE, programs.KIND, programs.COREDNS, programs.PAUSE)
    assert not simulated & {program.name for module in modules for program in module.programs}


@pytest.mark.parametrize(
    ("docker", "chosen"),
    [
        ('[ "$1" = images ] && echo 123456', "kindest/node:v1@sha256:1"),
        ('[ "$1" = pull ] && echo "$4" && exit 0; [ "$1" = images ]', "kindest/node:v1@sha256:1"),
        ('[ "$1" = images ] || { echo no such host >&2; exit 1; }', "home-built"),
    ],
    ids=["the engine has it", "it is pulled", "it cannot be pulled"],
)
def test_kinds_own_image_is_used_if_it_can_be_pulled_and_else_one_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker: str, chosen: str
) -> None:
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    sources = tmp_path / node_image.DEFAULTS
    sources.parent.mkdir(parents=True)
    sources.write_text('package defaults\n\nconst Image = "kindest/node:v1@sha256:1"\n')
    monkeypatch.setattr(programs, "kind_sources", lambda _log: tmp_path)
    monkeypatch.setattr(node_image, "ensure", lambda _log: "home-built")
    said: list[str] = []
    assert node_image.choose(said.append) == chosen
    assert any("cannot be pulled" in line and "no such host" in line for line in said) is (chosen == "home-built")
