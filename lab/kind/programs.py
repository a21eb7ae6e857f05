# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that a kind cluster needs beside those of the simulated cluster: built once, see `lab.go_build`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab import binaries
from lab.errors import LabError
from lab.go_build import GIGABYTE, GoModule, Program
from lab.go_toolchain import find_go
from lab.layout import SOURCES

KIND_VERSION = "0.33.0"
COREDNS_VERSION = "1.14.2"

# A go.mod of its own, because these programs need more modules, and only kind needs them. The versions are those of the simulated cluster.
NODE = replace(
    binaries.CLUSTER,
    folder=SOURCES / "kind" / "kubernetes",
    programs=(
        Program("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        Program("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"),
        Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    ),
)

KIND = GoModule(
    folder=SOURCES / "kind" / "cli",
    programs=(Program("kind", "sigs.k8s.io/kind"),),
    stamps={},
    largest=f"sigs.k8s.io/kind@v{KIND_VERSION}",
    cold_build_bytes=1 * GIGABYTE,
)

# A main function with the few plugins that a cluster needs. The original one needs the libraries of all clouds.
COREDNS = GoModule(
    folder=SOURCES / "kind" / "coredns",
    programs=(Program("coredns", "."),),
    stamps={},
    largest=f"github.com/coredns/coredns@v{COREDNS_VERSION}",
    cold_build_bytes=2 * GIGABYTE,
)

PAUSE = GoModule(
    folder=SOURCES / "kind" / "pause",
    programs=(Program("pause", "."),),
    stamps={},
    largest="",
    cold_build_bytes=1 * GIGABYTE,
)


@dataclass(frozen=True)
class Programs:
    """The folders of the programs."""

    cluster: Path
    """kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and etcd."""
    node: Path
    """kubelet, kubeadm and kube-proxy."""
    coredns: Path
    pause: Path


def ensure(log: Callable[[str], None]) -> Programs:
    """Return the programs of a node image. They are built if needed."""
    # In this order, because the later ones use what was compiled for the first.
    return Programs(cluster=binaries.ensure(log), node=NODE.ensure(log), coredns=COREDNS.ensure(log), pause=PAUSE.ensure(log))


def kind(log: Callable[[str], None]) -> Path:
    """Return the path of the kind program. It is built if needed."""
    return KIND.ensure(log) / "kind"


def kind_sources(log: Callable[[str], None]) -> Path:
    """Return the folder of kind's module. It has the files that kind puts into its node images."""
    kind(log)
    command = [str(find_go(log)), "mod", "download", "-json", f"sigs.k8s.io/kind@v{KIND_VERSION}"]
    result = subprocess.run(command, cwd=KIND.folder, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LabError(f"go mod download sigs.k8s.io/kind: {result.stderr.strip()}: check that GOPROXY answers, then run it again")
    return Path(json.loads(result.stdout)["Dir"])
