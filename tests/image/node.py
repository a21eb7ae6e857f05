# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containerd of a node, as a process of its own with a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

START_TIMEOUT_S = 30
PIN = "io.cri-containerd.pinned=pinned"


class Containerd:
    """A running containerd. It has no CRI plugin, which needs a network of pods."""

    def __init__(self, folder: Path) -> None:
        """Keep the content in ``folder``. The path of a socket has at most 107 characters, so that it is in another folder."""
        self.folder = folder
        self._short = Path(tempfile.mkdtemp(prefix="kube-scheduling-"))
        self.socket = self._short / "sock"

    def __enter__(self) -> Containerd:
        settings = self._short / "config.toml"
        settings.write_text(
            f'version = 2\nroot = "{self.folder}/root"\nstate = "{self._short}/state"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{self.socket}"\n'
        )
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(["containerd", "--config", str(settings)], stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._ctr("version").returncode != 0:
            assert self._process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=START_TIMEOUT_S)
        shutil.rmtree(self._short)

    def ctr(self, *arguments: str) -> str:
        """Run containerd's client, and return its output."""
        answer = self._ctr(*arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def images(self) -> dict[str, bool]:
        """Return the names of the images, and whether each is pinned."""
        return {line.split()[0]: PIN in line for line in self.ctr("images", "list").splitlines()[1:]}

    def remove_images(self) -> None:
        """Remove all images, and wait until their content is removed."""
        if names := list(self.images()):
            self.ctr("images", "remove", "--sync", *names)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True)
