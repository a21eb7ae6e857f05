# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes of a static pod of the namespace kube-system, as the host knows them without the API server.

The kubelet makes a folder for the logs of each pod: NAMESPACE_NAME_UID. No name has an underscore, and only a pod of a manifest has a UID
without hyphens. So no user of the cluster can make such a pod, and no process can enter its cgroup.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from ...scheduler_config.static_pod_cgroup import lines_of_pod
from .files import read_text

LOGS = "/var/log/pods"


def log_folders(name: str, logs: str = LOGS) -> dict[str, Path]:
    """Return the folder of the logs for each UID that the static pod has had, also an earlier one. The name has no name of a node."""
    found = {folder.name.rpartition("_")[2]: folder for folder in Path(logs).glob(f"kube-system_{name}-*_*")}
    return {uid: folder for uid, folder in found.items() if re.fullmatch("[0-9a-f]{32}", uid)}


def processes(name: str, logs: str = LOGS) -> dict[int, str]:
    """Return the environment of each process in a container of the static pod. Its variables end with a zero byte."""
    lines = re.compile(rf"^(?:{'|'.join(lines_of_pod(uid) for uid in log_folders(name, logs)) or '(?!)'})$", re.MULTILINE)
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The name of a cgroup can have all other characters at which Python ends a line.
            if lines.search(os.fsdecode((process / "cgroup").read_bytes())):
                found[int(process.name)] = os.fsdecode((process / "environ").read_bytes())
    return found


def log_end(name: str, logs: str = LOGS) -> list[str]:
    """Return the last lines of the newest log of the static pod, without the columns of the container runtime."""
    files = [file for folder in log_folders(name, logs).values() for file in folder.glob("*/*.log")]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    return [re.sub(r"^\S+ std(out|err) [FP] ", "", line) for line in (read_text(str(newest)).splitlines() if newest else [])[-4:]]
