# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import images into the content store of a node that does not run yet. A containerd of this machine does it and ends."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from lab.errors import LabError
from lab.kind.commands import run

CONFIG = """version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{socket}"
"""
NAMESPACE = "k8s.io"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


def import_archive(store: Path, archive: Path, scratch: Path) -> None:
    """Import the images of `archive` into the folder `store` of containerd. `scratch`: a folder that does not exist."""
    scratch.mkdir()
    socket = scratch / "socket"
    config = scratch / "config.toml"
    config.write_text(CONFIG.format(root=store, state=scratch / "state", socket=socket))
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(["containerd", "--config", str(config)], stdout=log, stderr=log)
    try:
        _wait(process, socket, scratch / "log")
        command = ["ctr", "--address", str(socket), "--namespace", NAMESPACE, "images", "import", "--no-unpack", str(archive)]
        run(command, what="import of the images into the node image")
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def _wait(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while subprocess.run(["ctr", "--address", str(socket), "version"], capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline_s:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-6:])
            raise LabError(f"containerd did not start for the node image: {last}")
        time.sleep(0.1)
