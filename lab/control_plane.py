# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a control plane into being, back to health, and out of the world.

kwokctl makes certificates and command lines; this file watches over it, and leaves nothing behind when it fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lab import credentials, kwok_config, ports
from lab.binaries import PROGRAMS
from lab.components import Component, clean_environment, components
from lab.errors import LabError
from lab.kwok_config import Variant
from lab.layout import Layout
from lab.processes import kill_all

READY_TIMEOUT_S = 60.0
PROGRESS_EVERY_S = 8.0
GAVE_UP_WAITING = "failed to wait for apiserver being healthy"
"""The controller manager logs this and ends if the API server is not healthy within 10 s. A kubelet would start it again."""


def create(layout: Layout, *, binaries: Path, variant: Variant, prometheus: Path | None, log: Callable[[str], None]) -> None:
    """Create and start a control plane; on any failure or interrupt all its processes are ended again."""
    destroy(layout)
    layout.folder.mkdir(parents=True, exist_ok=True)
    try:
        count = kwok_config.port_count(prometheus=prometheus is not None)
        kwok_config.write(
            layout,
            binaries=binaries,
            variant=variant,
            ports=ports.reserve(layout.folder, count),
            prometheus=prometheus,
        )
        _run_kwokctl(layout, binaries / "kwokctl", log)
        _link_programs(layout, binaries)
        wait_healthy(layout, timeout_s=READY_TIMEOUT_S, log=log)
        credentials.write_admin(layout, server_of(layout))
    except BaseException as error:
        clean_up_failed_start(layout, log)
        if isinstance(error, LabError):
            raise LabError(f"cluster {layout.name} did not start: {error}\nAll logs: {layout.folder}") from error
        raise


def repair(layout: Layout, log: Callable[[str], None]) -> None:
    """Start the components that have ended, in their order, and wait until all are healthy."""
    for component in components(layout):
        if component.pid is None:
            log(f"{component.name} of cluster {layout.name} is not running: starting it again")
            component.start()
            component.wait_healthy(timeout_s=READY_TIMEOUT_S)
    wait_healthy(layout, timeout_s=READY_TIMEOUT_S, log=log)


def clean_up_failed_start(layout: Layout, log: Callable[[str], None]) -> None:
    """End what a failed start has started; the files stay for the person who searches the cause."""
    count = kill_all(layout.kwok)
    ports.release(layout.folder)
    layout.state.unlink(missing_ok=True)
    layout.kubeconfig.unlink(missing_ok=True)
    log(f"cluster {layout.name}: start given up, {count} processes ended, logs are in {layout.folder}")


def destroy(layout: Layout) -> int:
    """End all processes and remove all files; returns the number of processes."""
    count = kill_all(layout.kwok)
    for path in layout.owned_paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or it holds other things
        layout.folder.rmdir()
    ports.release(layout.folder)
    return count


def server_of(layout: Layout) -> str:
    """Address of the API server."""
    for component in components(layout):
        if component.name == "kube-apiserver":
            return f"https://{component.health_address}"
    raise LabError(f"cluster {layout.name} has no kube-apiserver in {layout.folder}: bring it up first (lab up)")


def wait_healthy(layout: Layout, *, timeout_s: float, log: Callable[[str], None]) -> None:
    """Wait until every component says that it is ready.

    A component that gave up waiting for the API server is started again. Any other component that ended fails immediately.
    """
    deadline = time.monotonic() + timeout_s
    next_line = time.monotonic() + PROGRESS_EVERY_S
    waiting = components(layout)
    while waiting := [component for component in waiting if not component.healthy()]:
        _restart_or_raise(waiting, log)
        names = ", ".join(component.name for component in waiting)
        if time.monotonic() > deadline:
            raise LabError(f"{names} not healthy after {timeout_s:.0f} s, logs are in {layout.component_logs}")
        if time.monotonic() > next_line:
            log(f"  ... waiting for {names}")
            next_line = time.monotonic() + PROGRESS_EVERY_S
        time.sleep(0.05)


def _run_kwokctl(layout: Layout, kwokctl: Path, log: Callable[[str], None]) -> None:
    """Let kwokctl create and start everything; stop it as soon as one component has ended."""
    command = [str(kwokctl), "--config", str(layout.kwok_config), "create", "cluster", "--name", layout.name]
    # An empty kubeconfig keeps kwokctl's hands off the user's own one.
    command += ["--kubeconfig", "", "--timeout", f"{READY_TIMEOUT_S:.0f}s"]
    layout.logs.symlink_to(layout.component_logs.relative_to(layout.folder))
    with layout.kwokctl_log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(layout),
            start_new_session=True,
        )
        try:
            _watch(layout, process, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _watch(layout: Layout, process: subprocess.Popen[bytes], log: Callable[[str], None]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    next_line = time.monotonic() + PROGRESS_EVERY_S
    while process.poll() is None:
        _restart_or_raise(components(layout), log)
        if time.monotonic() > deadline:
            raise LabError(f"kwokctl is not done after {READY_TIMEOUT_S:.0f} s: see {layout.kwokctl_log}")
        if time.monotonic() > next_line:
            log("  ... waiting for the API server")
            next_line = time.monotonic() + PROGRESS_EVERY_S
        time.sleep(0.1)
    if process.returncode != 0 or not components(layout):
        said = layout.kwokctl_log.read_text(errors="replace").strip().splitlines()[-3:]
        raise LabError("kwokctl failed: " + "\n  ".join(["", *(line[-400:] for line in said)]))


def _restart_or_raise(candidates: list[Component], log: Callable[[str], None]) -> None:
    """Start components again that gave up waiting for the API server.

    Raises LabError for the first component that ended for another reason. The usual ones are a port in use and a bad binary.
    """
    for component in candidates:
        if component.has_ended:
            words = component.last_words()
            if GAVE_UP_WAITING in words:
                log(f"{component.name} gave up waiting for the API server: starting it again")
                component.start()
                continue
            raise LabError(f"{component.name} ended: {words}{_remedy(words)}")


def _remedy(words: str) -> str:
    if "address already in use" in words:
        return "\nAnother program took its port meanwhile: run up again, it chooses other ports (LAB_PORTS sets the range to choose from)."
    return ""


def _link_programs(layout: Layout, binaries: Path) -> None:
    """Programs that kwokctl has not linked itself; started from here they count as the cluster's own."""
    for program in PROGRAMS:
        link = layout.bin / program.name
        if not link.exists():
            link.symlink_to(binaries / program.name)
