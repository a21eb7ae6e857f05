# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The part of systemctl that the role uses, for a machine without systemd. SYSTEM_FOLDER has the units.

A unit is run as systemd does it: with its environment alone, in a folder with copies of its files.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SYSTEM = Path(os.environ["SYSTEM_FOLDER"])
STATE = SYSTEM.parent / "units-that-run"


def pid_of(name: str) -> int:
    """Return the process of a unit, or 0."""
    file = STATE / name / "pid"
    pid = int(file.read_text()) if file.is_file() else 0
    return pid if pid and Path(f"/proc/{pid}/environ").is_file() and Path(f"/proc/{pid}/cmdline").read_bytes() else 0


def stop(name: str) -> None:
    while pid := pid_of(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)


def start(name: str) -> None:
    values: dict[str, list[str]] = {}
    for line in (SYSTEM / name).read_text().replace("\\\n", " ").splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value)
    folder = STATE / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "credentials").mkdir(parents=True)
    for credential in values["LoadCredential"]:
        file, _, path = credential.partition(":")
        (folder / "credentials" / file).write_bytes(Path(path).read_bytes())
    environment = dict(line.split("=", 1) for line in values["Environment"])
    (command,) = values["ExecStart"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=folder / "credentials",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (folder / "pid").write_text(str(process.pid))


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--quiet"]
    if words[0] == "show":
        print("252.1" if words[1] == "--property=Version" else pid_of(words[-1]))
    elif words[0] == "disable":
        stop(words[-1])
    elif words[0] == "restart":
        stop(words[-1])
        start(words[-1])


main()
