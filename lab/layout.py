# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of the files of a cluster and of the lab's caches.

One class has all paths, so that no other file joins paths.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

SOURCES = Path(__file__).resolve().parent
REPOSITORY = SOURCES.parent
DEFAULT_NAME = "default"
NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def project_cache_dir() -> Path:
    """Folder for what is built once and used by every checkout of this user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "onprem-kube-scheduling"


def cache_dir() -> Path:
    """The lab's part of it."""
    return project_cache_dir() / "lab"


def default_folder(name: str) -> Path:
    """Folder of a cluster of the command line: `.lab` for the default one, `.lab/clusters/NAME` for others.

    LAB_HOME replaces `.lab`.
    """
    base = Path(os.environ.get("LAB_HOME") or REPOSITORY / ".lab")
    return base if name == DEFAULT_NAME else base / "clusters" / name


def check_cluster_name(name: str) -> None:
    """Raise LabError for a text that cannot be the name of a cluster."""
    if not NAME_PATTERN.fullmatch(name):
        raise LabError(f"cluster name {name!r}: use up to 40 lower case letters, digits and dashes")


@dataclass(frozen=True)
class Layout:
    """The files of one cluster. kwokctl wants its own tree below a work folder, the rest is ours."""

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path | str, name: str) -> Layout:
        check_cluster_name(name)
        return cls(folder=Path(folder).resolve(), name=name)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def kubectl_cache(self) -> Path:
        return self.folder / "kubectl-cache"

    @property
    def service_account_kubeconfigs(self) -> Path:
        """Kubeconfigs of service accounts."""
        return self.folder / "identities"

    @property
    def kwok_workdir(self) -> Path:
        return self.folder / "kwok"

    @property
    def kwok(self) -> Path:
        return self.kwok_workdir / "clusters" / self.name

    @property
    def kwok_config(self) -> Path:
        """The configuration file that kwokctl reads."""
        return self.folder / "kwokctl.yaml"

    @property
    def kwok_answer(self) -> Path:
        """The file that kwokctl writes: components with their command lines, and the Stages."""
        return self.kwok / "kwok.yaml"

    @property
    def kwokctl_log(self) -> Path:
        return self.folder / "kwokctl.log"

    @property
    def bin(self) -> Path:
        return self.kwok / "bin"

    @property
    def pids(self) -> Path:
        return self.kwok / "pids"

    @property
    def pki(self) -> Path:
        return self.kwok / "pki"

    @property
    def component_logs(self) -> Path:
        return self.kwok / "logs"

    @property
    def audit_log(self) -> Path:
        return self.component_logs / "audit.log"

    @property
    def owned_paths(self) -> list[Path]:
        """Everything `down` removes; the folder may hold other clusters beside them."""
        return [
            self.kubeconfig,
            self.state,
            self.logs,
            self.kubectl_cache,
            self.service_account_kubeconfigs,
            self.kwok_config,
            self.kwokctl_log,
            self.kwok_workdir,
        ]
