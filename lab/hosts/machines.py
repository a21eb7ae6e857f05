# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers with systemd that are like freshly installed Debian machines: bring them up, take them down."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.debian_image import DebianImage
from lab.errors import LabError
from lab.hosts import programs, repository
from lab.kind import engine
from lab.kind.commands import answer
from lab.layout import cache_dir, check_cluster_name
from lab.locks import locked

MACHINES = {"package12": "bookworm", "package13": "trixie", "archive12": "bookworm", "archive13": "trixie"}
"""The names of the machines, and their releases of Debian."""
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-apt", "iproute2", "procps", "ufw")
IMAGES = {
    release: DebianImage(
        name="kube-scheduling.lab/host:debian",
        release=release,
        packages=PACKAGES,
        unneeded=(
            *("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/man/*", "usr/share/doc/*", "usr/share/locale/*"),
            # systemd would take its number for the machine's, and all machines would have the same.
            "var/lib/dbus/machine-id",
        ),
        # Every machine gives itself a number when it starts.
        emptied=("etc/machine-id",),
        # They fail in a container.
        masked=("systemd-modules-load.service", "getty@tty1.service", "console-getty.service"),
        changes=("ENV container=docker", 'CMD ["/sbin/init"]'),
    )
    for release in sorted(set(MACHINES.values()))
}
LABEL = "kube-scheduling.lab.hosts"
PACKAGES_FOLDER = "/srv/packages"
SOURCE = f"deb [trusted=yes] file:{PACKAGES_FOLDER} ./"
START_TIMEOUT_S = 60.0
STARTED = {"running", "degraded"}


@dataclass(frozen=True)
class Hosts:
    """Handle of a group of machines."""

    name: str
    folder: Path

    @classmethod
    def at(cls, folder: Path | str, name: str) -> Hosts:
        check_cluster_name(name)
        return cls(name, Path(folder).resolve())

    @property
    def archives_file(self) -> Path:
        """A JSON file: the archives of `lab.hosts.programs`."""
        return self.folder / "archives.json"

    def container(self, machine: str) -> str:
        return f"{self.name}-{machine}"

    def running(self) -> list[str]:
        """Return the names of the containers."""
        return sorted(answer(["docker", "ps", "--all", "--filter", f"label={LABEL}={self.name}", "--format", "{{.Names}}"]).split())

    def up(
        self, log: Callable[[str], None], *, install: bool, machines: Sequence[str] = tuple(MACHINES), network: str | None = None
    ) -> None:
        """Return when systemd has started on the machines. They are new: what is left of earlier ones is removed.

        `install`: whether debootstrap may be installed if it is missing. `network`: the engine's network in which the machines are, for
        example that of kind. None is the engine's default.
        """
        engine.ensure(log)
        archives = programs.ensure(log)
        images = {MACHINES[machine]: IMAGES[MACHINES[machine]] for machine in machines}
        folders = {release: repository.ensure(image, log, install=install) for release, image in images.items()}
        for image in images.values():
            image.ensure(log, install=install)
        with self._locked(log):
            self._remove()
            self.folder.mkdir(parents=True, exist_ok=True)
            self.archives_file.write_text(json.dumps({name: asdict(archive) for name, archive in archives.items()}))
            self._start(machines, folders, ["--network", network] if network else [])
        log(f"hosts {self.name}: {', '.join(self.running())}")

    def down(self, log: Callable[[str], None]) -> None:
        """Remove the machines and their files. Machines that are not there are fine."""
        reason = engine.problem()
        if reason:
            raise LabError(f"hosts {self.name}: {reason}. {engine.REMEDY}")
        with self._locked(log):
            self._remove()
        log(f"hosts {self.name} are down")

    def _locked(self, log: Callable[[str], None]) -> AbstractContextManager[None]:
        return locked(cache_dir() / f"hosts-{self.name}.lock", why=f"which works on the hosts {self.name}", log=log)

    def _start(self, machines: Sequence[str], folders: Mapping[str, Path], in_network: Sequence[str]) -> None:
        for machine in machines:
            release = MACHINES[machine]
            options = ["--detach", "--name", self.container(machine), "--hostname", machine, "--label", f"{LABEL}={self.name}"]
            options += in_network
            options += ["--privileged", "--cgroupns=private", "--tmpfs", "/run", "--tmpfs", "/tmp", "--stop-signal", "SIGRTMIN+3"]
            options += ["--volume", f"{folders[release]}:{PACKAGES_FOLDER}:ro"]
            answer(["docker", "run", *options, IMAGES[release].reference])
        for machine in machines:
            container = self.container(machine)
            _wait(container)
            command = ["docker", "exec", "--interactive", container, "sh", "-c", "cat > /etc/apt/sources.list"]
            answer(command, text=f"{SOURCE}\n")

    def _remove(self) -> None:
        containers = self.running()
        if containers:
            answer(["docker", "rm", "--force", "--volumes", *containers])
        shutil.rmtree(self.folder, ignore_errors=True)


def _wait(container: str) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while (state := _state(container)) not in STARTED:
        if time.monotonic() > deadline_s:
            raise LabError(
                f"container {container}: systemd is {state!r} after {START_TIMEOUT_S:.0f} s: read its log: docker logs {container}"
            )
        time.sleep(0.1)


def _state(container: str) -> str:
    # An exit code other than 0 is a state, too, or a systemd that does not answer yet.
    return answer(["docker", "exec", container, "sh", "-c", "systemctl is-system-running 2> /dev/null || true"]).strip()
