# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seven programs of a cluster, and programs that only some tests or measurements need: built once, see `lab.go_build`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lab.go_build import GIGABYTE, GoModule, Program
from lab.layout import SOURCES

KUBERNETES_VERSION = "1.36.3"
DESCHEDULER_VERSION = "0.36.0"
PROMETHEUS_VERSION = "3.15.0"
PROMETHEUS_MODULE_VERSION = "0.315.0"
"""Prometheus 3.15.0 has this version as a Go module."""
NODE_EXPORTER_VERSION = "1.12.1"

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

PROMETHEUS = GoModule(
    folder=SOURCES / "prometheus",
    programs=(Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", "3 minutes"),),
    stamps={"github.com/prometheus/common/version.Version": PROMETHEUS_VERSION},
    largest=f"github.com/prometheus/prometheus@v{PROMETHEUS_MODULE_VERSION}",
    cold_build="3 minutes",
    cold_build_bytes=3 * GIGABYTE,
    # Without service discovery by the interfaces of clouds, which is most of its code. Static targets and files with targets are left.
    tags=("remove_all_sd",),
)

# In the same folder, but built apart: it needs more packages, and only tests of metrics need it.
PROMTOOL = replace(PROMETHEUS, programs=(Program("promtool", "github.com/prometheus/prometheus/cmd/promtool", "3 minutes"),))

# It shares most packages with Prometheus, so that it is built in seconds after it.
NODE_EXPORTER = replace(
    PROMETHEUS,
    programs=(Program("node_exporter", "github.com/prometheus/node_exporter", "1 minute"),),
    stamps={"github.com/prometheus/common/version.Version": NODE_EXPORTER_VERSION},
    largest=f"github.com/prometheus/node_exporter@v{NODE_EXPORTER_VERSION}",
    cold_build="1 minute",
    tags=(),
)


def ensure(log: Callable[[str], None] = print) -> Path:
    """Folder that holds the seven programs of a cluster; builds the missing ones."""
    return CLUSTER.ensure(log)


def descheduler(log: Callable[[str], None] = print) -> Path:
    """Path of the descheduler; builds it if needed."""
    return DESCHEDULER.ensure(log) / DESCHEDULER.programs[0].name


def prometheus(log: Callable[[str], None] = print) -> Path:
    """Path of Prometheus; builds it if needed."""
    return PROMETHEUS.ensure(log) / PROMETHEUS.programs[0].name


def promtool(log: Callable[[str], None] = print) -> Path:
    """Path of promtool; builds it if needed."""
    return PROMTOOL.ensure(log) / PROMTOOL.programs[0].name


def node_exporter(log: Callable[[str], None] = print) -> Path:
    """Path of the real node_exporter; builds it if needed."""
    return NODE_EXPORTER.ensure(log) / NODE_EXPORTER.programs[0].name
