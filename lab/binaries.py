# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seven programs of a cluster, and the descheduler, which only measurements want: built once, see `lab.go_build`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.go_build import GIGABYTE, GoModule, Program
from lab.layout import SOURCES

KUBERNETES_VERSION = "1.36.3"
DESCHEDULER_VERSION = "0.36.0"

PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "1 minute"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "5 minutes"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "3 minutes"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "20 s"),
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "1 minute"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", "30 s"),
    Program("kwokctl", "sigs.k8s.io/kwok/cmd/kwokctl", "30 s"),
)

CLUSTER = GoModule(
    folder=SOURCES,
    programs=PROGRAMS,
    # Unstamped programs call themselves v0.0.0-master, over which clients stumble.
    stamps={
        "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
        "k8s.io/component-base/version.gitMajor": KUBERNETES_VERSION.split(".")[0],
        "k8s.io/component-base/version.gitMinor": KUBERNETES_VERSION.split(".")[1],
        "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES_VERSION}",
    },
    largest=f"k8s.io/kubernetes@v{KUBERNETES_VERSION}",
    cold_build="5 to 10 minutes",
    cold_build_bytes=6 * GIGABYTE,
)

# A go.mod of its own, because it replaces a module for everything that is built with it.
DESCHEDULER = GoModule(
    folder=SOURCES / "descheduler",
    programs=(Program("descheduler", "sigs.k8s.io/descheduler/cmd/descheduler", "5 minutes"),),
    # It reads its own version only from the tags of its container images, which begin with a date.
    stamps={"sigs.k8s.io/descheduler/pkg/version.version": f"v20260101-v{DESCHEDULER_VERSION}"},
    largest=f"sigs.k8s.io/descheduler@v{DESCHEDULER_VERSION}",
    cold_build="5 minutes",
    cold_build_bytes=3 * GIGABYTE,
)


def ensure(log: Callable[[str], None] = print) -> Path:
    """Folder that holds the seven programs of a cluster; builds the missing ones."""
    return CLUSTER.ensure(log)


def descheduler(log: Callable[[str], None] = print) -> Path:
    """Path of the descheduler; builds it if needed."""
    return DESCHEDULER.ensure(log) / DESCHEDULER.programs[0].name
