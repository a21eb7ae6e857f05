# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's own dockerd: start it so that it outlives its caller, fence its containers, and end it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.kind import runc_wrapper
from lab.kind.packages import PATHS
from lab.layout import cache_dir
from lab.processes import arguments, has_ended, send_signal

RUN = Path("/run/onprem-kube-scheduling-docker")
"""A short path: sockets below it must fit into 107 characters."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.1
CAP_SYS_RESOURCE = 24
STATUS = Path("/proc/self/status")


def data_folder() -> Path:
    """Folder of images and containers."""
    return cache_dir() / "docker"


def lock_file() -> Path:
    return cache_dir() / "docker.lock"


def start(log: Callable[[str], None], answers: Callable[[], bool]) -> None:
    """Start dockerd, and return when it answers and its containers are fenced. Raises LabError with its last lines."""
    if os.geteuid() != 0:
        raise LabError("dockerd needs root: run it as root, or start an engine that this user may use")
    RUN.mkdir(mode=0o700, exist_ok=True)
    # A killed dockerd leaves it, and the next one would refuse to start.
    if pid() is None:
        _pid_file().unlink(missing_ok=True)
    log_file = RUN / "log"
    log(f"starting dockerd, its log is {log_file}")
    with log_file.open("wb") as output:
        process = subprocess.Popen(
            command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=os.environ | {"PATH": PATHS}
        )
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline_s:
            process.kill()
            last = "\n".join(log_file.read_text(errors="replace").splitlines()[-8:])
            raise LabError(f"dockerd did not start: {last}\nThe whole log is {log_file}.")
        time.sleep(POLL_S)
    fence()


def stop() -> bool:
    """End dockerd and wait for it. Return False if none runs."""
    found = pid()
    if found is None:
        return False
    send_signal(found, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while not has_ended(found):
        if time.monotonic() > deadline_s:
            raise LabError(f"dockerd, process {found}, has not ended within {STOP_TIMEOUT_S:.0f} s: end it with kill -9 {found}")
        time.sleep(POLL_S)
    return True


def pid() -> int | None:
    """The process of the lab's dockerd, if it runs."""
    try:
        number = int(_pid_file().read_text())
    except (OSError, ValueError):
        return None
    return number if f"--pidfile={_pid_file()}" in arguments(number) else None


def command() -> list[str]:
    """The command line of dockerd."""
    flags = ["dockerd", "--storage-driver=overlay2", f"--data-root={data_folder()}", f"--exec-root={RUN / 'exec'}"]
    flags.append(f"--pidfile={_pid_file()}")
    if not _has_capability(CAP_SYS_RESOURCE):
        flags += [f"--add-runtime=lab={_install_wrapper()}", "--default-runtime=lab"]
    return flags


def fence() -> None:
    """Reject what containers send to the outside of this machine.

    No image is then pulled by mistake. Packets to addresses of Services do not leave the machine before kube-proxy has written its rules.
    """
    device = _default_route_device()
    if device:
        for program, chain in (("iptables", "DOCKER-USER"), ("ip6tables", "FORWARD")):
            rule = [chain, "-o", device, "-j", "REJECT"]
            if _iptables(program, "-C", *rule).returncode != 0:
                added = _iptables(program, "-I", *rule)
                if added.returncode != 0:
                    raise LabError(f"{program} -I {' '.join(rule)}: {added.stderr.strip()}")


def _iptables(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "-w", *words], capture_output=True, text=True, check=False, env=os.environ | {"PATH": PATHS})


def _default_route_device() -> str:
    words = subprocess.run(["ip", "route", "show", "default"], capture_output=True, text=True, check=False).stdout.split()
    return words[words.index("dev") + 1] if "dev" in words else ""


def _install_wrapper() -> Path:
    """Install a copy of the wrapper of runc, because this checkout may be removed before the engine."""
    path = RUN / "runc-wrapper"
    # Without the site packages it starts faster.
    shell = f'#!/bin/sh\nexec {shlex.quote(str(Path(sys.executable).resolve()))} -I -S {shlex.quote(f"{path}.py")} "$@"\n'
    path.with_suffix(".py").write_text(Path(runc_wrapper.__file__).read_text())
    path.write_text(shell)
    path.chmod(0o755)
    return path


def _has_capability(number: int) -> bool:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> number & 1)


def _pid_file() -> Path:
    return RUN / "pid"
