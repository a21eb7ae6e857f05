# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes and the logs of a static pod of the namespace kube-system, as its host knows them without the API server.

The kubelet makes a folder for the logs of each pod: NAMESPACE_NAME_UID. No name has an underscore, and only a pod of a manifest has a UID
without hyphens. So no user of the cluster can make such a pod, and no process can enter its cgroup. A mirror pod proves nothing, because a
kubelet can make one of any name.

A process can choose its own name and command line, and a container may make cgroups below its own one. Only root and the kubelet make the
cgroup of a pod at its place below the root. So a line of ``/proc/PID/cgroup`` is compared from its beginning, and by whole components.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .files import read_text

LOGS = "/var/log/pods"
ROOTS = ((), ("kubelet",))
"""The ``cgroupRoot`` of kubelets: the root itself, and the one that kind sets."""
QUALITIES_OF_SERVICE = (("burstable",), ("besteffort",), ())
"""The cgroups of the quality of service. A guaranteed pod has none."""


@dataclass(frozen=True)
class StaticPod:
    """A static pod. Its whole name ends with that of the node. An empty node is any."""

    name: str
    node: str = ""

    def __str__(self) -> str:
        return f"Pod kube-system/{self.name}-{self.node}"

    def folders(self) -> dict[str, Path]:
        """Return the folder of the logs for each UID that the pod has had. A changed manifest has another UID."""
        folders = Path(LOGS).glob(f"kube-system_{self.name}-{self.node or '*'}_*")
        found = {folder.name.rpartition("_")[2]: folder for folder in folders}
        # Only the whole name tells a manifest with a UID of its own, which has hyphens, from the pods of a Deployment.
        return {uid: folder for uid, folder in found.items() if re.fullmatch("[0-9a-z-]+" if self.node else "[0-9a-f]{32}", uid)}

    def processes(self) -> dict[int, Path]:
        """Return the folder in /proc of each process in a container of the pod."""
        lines = [_lines_of_pod(uid) for uid in self.folders()]
        return {int(path.name): path for path in Path("/proc").glob("[0-9]*") if _is_in(path, lines)}

    def runs(self, process: Path, commands: Collection[Sequence[str]]) -> bool:
        """Return whether a process, given by its folder in /proc, is in a container of the pod and has one of the command lines."""
        return values_of(process, "cmdline") in map(list, commands) and _is_in(process, [_lines_of_pod(uid) for uid in self.folders()])

    def with_command(self, *commands: Sequence[str]) -> list[int]:
        """Return the processes of the pod with one of the command lines."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self.runs(path, commands)]

    def log_end(self) -> list[str]:
        """Return the last lines of the newest log, without the columns of the container runtime."""
        # A link may lead to a file of the container runtime that is gone.
        files = [file for folder in self.folders().values() for file in folder.glob("*/*.log") if file.is_file()]
        newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
        return [re.sub(r"^\S+ std(out|err) [FP] ", "", line) for line in (read_text(str(newest)).splitlines() if newest else [])[-4:]]


def values_of(process: Path, name: str) -> list[str]:
    """Return the command line or the environment of a process. One that has ended has none."""
    try:
        return os.fsdecode((process / name).read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def _is_in(process: Path, patterns: Iterable[str]) -> bool:
    """Return whether a process has one of the cgroups."""
    try:
        # The name of a cgroup can have all other characters at which splitlines() ends a line.
        lines = os.fsdecode((process / "cgroup").read_bytes()).split("\n")
    except OSError:  # it has ended meanwhile
        return False
    return any(re.fullmatch(pattern, line) for pattern in patterns for line in lines)


def _lines_of_pod(uid: str) -> str:
    """Return a regular expression for whole lines, with the cgroup drivers of the kubelet and with both versions of cgroups."""
    parts = [(*root, "kubepods", *quality, f"pod{uid}") for root in ROOTS for quality in QUALITIES_OF_SERVICE]
    folders = [folder for one in parts for folder in ("/".join(one), _slices([part.replace("-", "_") for part in one]))]
    return f"[0-9]+:[^:]*:/({'|'.join(folder.replace('.', '[.]') for folder in folders)})/.+"


def _slices(parts: Sequence[str]) -> str:
    """Return the folder that systemd makes of a slice: each slice has the name of its parent at the beginning of its own."""
    return "/".join(f"{'-'.join(parts[:length])}.slice" for length in range(1, len(parts) + 1))
