# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes and the log of a static pod, found on its own host without the API.

Only the kubelet makes the folder of the logs of a pod, whose name has the UID. A mirror pod proves nothing, because a kubelet can make one
of any name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...scheduler_config.static_pod_cgroup import lines_of_pod

LOGS = "/var/log/pods"


@dataclass(frozen=True)
class StaticPod:
    """A static pod. Its name ends with that of the node."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Pod {self.namespace}/{self.name}"

    def folders(self) -> list[Path]:
        """Return the folders of its logs. A pod of a changed manifest has another UID, and a folder of its own."""
        # Neither a namespace nor a name has an underscore.
        return [path for path in Path(LOGS).glob("*") if path.name.rpartition("_")[0] == f"{self.namespace}_{self.name}"]

    def has(self, process: Path, commands: Iterable[Sequence[str]]) -> bool:
        """Return whether a process, given by its folder in /proc, is in a container of the pod and has one of the command lines."""
        try:
            words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")[:-1]
            if words not in [list(command) for command in commands]:
                return False
            # The name of a cgroup can have all other characters at which splitlines() ends a line.
            lines = os.fsdecode((process / "cgroup").read_bytes()).split("\n")
        except OSError:
            return False
        patterns = [lines_of_pod(folder.name.rpartition("_")[2]) for folder in self.folders()]
        return any(re.fullmatch(pattern, line) for pattern in patterns for line in lines)

    def processes(self, *commands: Sequence[str]) -> list[int]:
        """Return the processes with one of the command lines."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self.has(path, commands)]

    def last_log_line(self) -> str:
        """Return the last line that a container has written, without the columns of the container runtime."""
        logs = {file: file.stat().st_mtime for folder in self.folders() for file in folder.glob("*/*.log") if file.is_file()}
        lines = max(logs, key=lambda file: logs[file]).read_text(encoding="utf-8", errors="replace").splitlines() if logs else []
        return re.sub(r"^\S+ std(out|err) [FP] ", "", lines[-1]) if lines else ""
