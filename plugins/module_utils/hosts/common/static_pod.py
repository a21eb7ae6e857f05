# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes and the logs of a static pod of the namespace kube-system, as its host knows them without the API server.

The kubelet makes a folder for the logs of each pod: NAMESPACE_NAME_UID. No name has an underscore, and only a pod of a manifest has a UID
without hyphens. So no user of the cluster can make such a pod, and no process can enter its cgroup. A mirror pod proves nothing, because a
kubelet can make one of any name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...scheduler_config.static_pod_cgroup import lines_of_pod
from .files import read_text

LOGS = "/var/log/pods"


@dataclass(frozen=True)
class StaticPod:
    """A static pod. Its whole name ends with that of the node. An empty node is any."""

    name: str
    node: str = ""
    logs: str = ""

    def __str__(self) -> str:
        return f"Pod kube-system/{self.name}-{self.node}"

    def folders(self) -> dict[str, Path]:
        """Return the folder of the logs for each UID that the pod has had. A changed manifest has another UID."""
        folders = Path(self.logs or LOGS).glob(f"kube-system_{self.name}-{self.node or '*'}_*")
        found = {folder.name.rpartition("_")[2]: folder for folder in folders}
        # Only the whole name tells a manifest with a UID of its own, which has hyphens, from the pods of a Deployment.
        return {uid: folder for uid, folder in found.items() if re.fullmatch("[0-9a-z-]+" if self.node else "[0-9a-f]{32}", uid)}

    def has(self, process: Path, uids: Iterable[str]) -> bool:
        """Return whether a process, given by its folder in /proc, is in a container of the pod."""
        try:
            # The name of a cgroup can have all other characters at which splitlines() ends a line.
            lines = os.fsdecode((process / "cgroup").read_bytes()).split("\n")
        except OSError:  # it has ended meanwhile
            return False
        return any(re.fullmatch(lines_of_pod(uid), line) for uid in uids for line in lines)

    def runs(self, process: Path, commands: Iterable[Sequence[str]]) -> bool:
        """Return whether a process is in a container of the pod and has one of the command lines."""
        return _values(process, "cmdline") in [list(command) for command in commands] and self.has(process, self.folders())

    def processes(self) -> dict[int, Path]:
        """Return the folder in /proc of each process of the pod."""
        uids = self.folders()
        return {int(path.name): path for path in Path("/proc").glob("[0-9]*") if self.has(path, uids)}

    def environments(self) -> dict[int, list[str]]:
        """Return the environment of each process of the pod."""
        return {pid: _values(path, "environ") for pid, path in self.processes().items()}

    def with_command(self, *commands: Sequence[str]) -> list[int]:
        """Return the processes of the pod with one of the command lines."""
        return [pid for pid, path in self.processes().items() if _values(path, "cmdline") in [list(command) for command in commands]]

    def log_end(self) -> list[str]:
        """Return the last lines of the newest log, without the columns of the container runtime."""
        # A link may lead to a file of the container runtime that is gone.
        files = [file for folder in self.folders().values() for file in folder.glob("*/*.log") if file.is_file()]
        newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
        return [re.sub(r"^\S+ std(out|err) [FP] ", "", line) for line in (read_text(str(newest)).splitlines() if newest else [])[-4:]]


def _values(process: Path, name: str) -> list[str]:
    """Return the command line or the environment of a process. One that has ended has none."""
    try:
        return os.fsdecode((process / name).read_bytes()).split("\0")[:-1]
    except OSError:
        return []
