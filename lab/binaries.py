# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seven programs of a cluster, and programs that only some tests or measurements need: built once, see `lab.go_build`.

LAB_PROGRAMS=download takes the programs of a cluster from the official releases instead, see `lab.downloads`.
Needs only Python: `python -m lab.binaries` builds the programs beside the installation of `.venv`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from lab.downloads import DownloadError, Releases
from lab.errors import LabError
from lab.go_build import GIGABYTE, GoModule, Program
from lab.layout import SOURCES, cache_dir
from lab.locks import locked
from lab.progress import end_on_signals

KUBERNETES_VERSION = "1.36.3"
"""The version of a cluster by default, and of kind's node image."""
OLDER_KUBERNETES_VERSIONS = ("1.35.8", "1.34.12")
"""The versions that LAB_KUBERNETES can choose instead. Each has a go.mod in `kubernetes/MINOR`."""
ETCD_VERSION = "3.6.8"
KWOK_VERSION = "0.8.0"
DESCHEDULER_VERSION = "0.36.0"
PROMETHEUS_VERSION = "3.15.0"
PROMETHEUS_MODULE_VERSION = "0.315.0"
"""Prometheus 3.15.0 has this version as a Go module."""
NODE_EXPORTER_VERSION = "1.12.1"


def _minor(version: str) -> str:
    """Return the version without its patch, such as 1.36."""
    return version.rpartition(".")[0]


def _stamps(kubernetes_version: str) -> Mapping[str, str]:
    # Unstamped programs call themselves v0.0.0-master, which some clients refuse.
    return {
        "k8s.io/component-base/version.gitVersion": f"v{kubernetes_version}",
        "k8s.io/component-base/version.gitMajor": kubernetes_version.split(".")[0],
        "k8s.io/component-base/version.gitMinor": kubernetes_version.split(".")[1],
        "k8s.io/client-go/pkg/version.gitVersion": f"v{kubernetes_version}",
    }


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("kwokctl", "sigs.k8s.io/kwok/cmd/kwokctl"),
)

CLUSTER = GoModule(
    folder=SOURCES,
    programs=PROGRAMS,
    stamps=_stamps(KUBERNETES_VERSION),
    largest=f"k8s.io/kubernetes@v{KUBERNETES_VERSION}",
    cold_build_bytes=6 * GIGABYTE,
)

# They are the same for every version of Kubernetes.
SHARED = replace(CLUSTER, programs=tuple(program for program in PROGRAMS if not program.package.startswith("k8s.io/kubernetes/")))

# Each has a go.mod of its own, because a module has one version in a go.mod.
OLDER = {
    _minor(version): replace(
        CLUSTER,
        folder=SOURCES / "kubernetes" / _minor(version),
        programs=tuple(program for program in PROGRAMS if program not in SHARED.programs),
        stamps=_stamps(version),
        largest=f"k8s.io/kubernetes@v{version}",
    )
    for version in OLDER_KUBERNETES_VERSIONS
}

# A go.mod of its own, because it replaces a module for everything that is built with it.
DESCHEDULER = GoModule(
    folder=SOURCES / "descheduler",
    programs=(Program("descheduler", "sigs.k8s.io/descheduler/cmd/descheduler"),),
    # It reads its own version only from the tags of its container images, which begin with a date.
    stamps={"sigs.k8s.io/descheduler/pkg/version.version": f"v20260101-v{DESCHEDULER_VERSION}"},
    largest=f"sigs.k8s.io/descheduler@v{DESCHEDULER_VERSION}",
    cold_build_bytes=3 * GIGABYTE,
)

PROMETHEUS = GoModule(
    folder=SOURCES / "prometheus",
    programs=(Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),),
    stamps={"github.com/prometheus/common/version.Version": PROMETHEUS_VERSION},
    largest=f"github.com/prometheus/prometheus@v{PROMETHEUS_MODULE_VERSION}",
    cold_build_bytes=3 * GIGABYTE,
    # Without service discovery by the interfaces of clouds, which is most of its code. Static targets and files with targets are left.
    tags=("remove_all_sd",),
)

# In the same folder, but built apart: it needs more packages, and only tests of metrics need it.
PROMTOOL = replace(PROMETHEUS, programs=(Program("promtool", "github.com/prometheus/prometheus/cmd/promtool"),))

# It shares most packages with Prometheus, so that it is built in seconds after it.
NODE_EXPORTER = replace(
    PROMETHEUS,
    programs=(Program("node_exporter", "github.com/prometheus/node_exporter"),),
    stamps={"github.com/prometheus/common/version.Version": NODE_EXPORTER_VERSION},
    largest=f"github.com/prometheus/node_exporter@v{NODE_EXPORTER_VERSION}",
    tags=(),
)


def kubernetes_version() -> str:
    """Return the version of the clusters, such as 1.36.3: the one of LAB_KUBERNETES. Raises LabError for an unknown one."""
    known = {_minor(version): version for version in (KUBERNETES_VERSION, *OLDER_KUBERNETES_VERSIONS)}
    wanted = os.environ.get("LAB_KUBERNETES") or _minor(KUBERNETES_VERSION)
    if wanted not in known:
        raise LabError(f"LAB_KUBERNETES={wanted}: unknown, use one of the minor versions {', '.join(sorted(known))}")
    return known[wanted]


def ensure(log: Callable[[str], None] = print) -> Path:
    """Folder that holds the seven programs of a cluster; builds or downloads the missing ones."""
    version = kubernetes_version()
    download = _download_is_chosen()
    older = OLDER.get(_minor(version))
    if os.environ.get("LAB_BIN_DIR"):
        return CLUSTER.ensure(log)
    if download:
        return _downloaded(Releases(version, ETCD_VERSION, KWOK_VERSION), log)
    if older is None:
        return CLUSTER.ensure(log)
    folder = older.ensure(log)
    _link(SHARED, folder, log)
    return folder


def _download_is_chosen() -> bool:
    choice = os.environ.get("LAB_PROGRAMS") or "build"
    if choice not in ("build", "download"):
        raise LabError(f"LAB_PROGRAMS={choice}: use build (the default) or download")
    return choice == "download"


def _downloaded(releases: Releases, log: Callable[[str], None]) -> Path:
    """Folder with the programs of the releases. After a failure those that are still missing are built, and it has links to them."""
    folder = cache_dir() / releases.folder_name
    if not CLUSTER.missing(folder):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with locked(cache_dir() / f"{releases.folder_name}.lock", why="which downloads the programs", log=log):
        try:
            for name in CLUSTER.missing(folder):
                releases.fetch(name, folder, log)
        except DownloadError as error:
            missing = CLUSTER.missing(folder)
            log(f"binaries: download: {error}; so these are built: {', '.join(missing)}")
            for module in (OLDER.get(_minor(releases.kubernetes), CLUSTER), SHARED):
                programs = tuple(program for program in module.programs if program.name in CLUSTER.missing(folder))
                _link(replace(module, programs=programs), folder, log)
    return folder


def _link(module: GoModule, folder: Path, log: Callable[[str], None]) -> None:
    """Put links to the programs of a module into another folder. They are built if needed."""
    built = module.ensure(log)
    for program in module.programs:
        # Replaced by a rename, because another process may do the same, and an older link may lead to a folder that is gone.
        link = folder / f".{program.name}.{os.getpid()}"
        link.symlink_to(built / program.name)
        link.replace(folder / program.name)


def ensure_test_programs(log: Callable[[str], None] = print) -> None:
    """Build Prometheus, promtool and node_exporter if needed."""
    replace(PROMETHEUS, programs=PROMETHEUS.programs + PROMTOOL.programs).ensure(log)
    NODE_EXPORTER.ensure(log)


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


def main() -> int:
    end_on_signals()
    try:
        ensure()
    except LabError as error:
        print(f"binaries: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
