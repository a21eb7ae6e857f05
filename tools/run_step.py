# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs one step of the Makefile: says its name, passes its output on, and prints a line every 8 s without output.

The programs of `.venv` come first on the command's PATH: python -m tools.run_step NAME -- COMMAND...
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import NoReturn

from tools.paths import ENVIRONMENT

HEARTBEAT_S = 8.0
CHUNK_BYTES = 65536


class Terminated(KeyboardInterrupt):
    """SIGTERM, which make sends only to this process."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command as a named step.")
    parser.add_argument("--quiet-end", action="store_true", help="no closing line after a success")
    parser.add_argument("--hold", action="store_true", help="print the output at the end, for steps that run side by side")
    parser.add_argument("name")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    print(f"==> {options.name}", flush=True)
    started = time.monotonic()
    try:
        code = _run(options.name, command, started, hold=options.hold)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"{command[0]} does not start: {error}. Programs of .venv are those of requirements-dev.txt; `make env` installs them.")
        code = 127
    seconds = time.monotonic() - started
    if code != 0:
        print(f"==> {options.name}: FAILED (exit code {code}) after {seconds:.1f} s", flush=True)
    elif not options.quiet_end:
        print(f"==> {options.name}: ok in {seconds:.1f} s", flush=True)
    return code


def _run(name: str, command: list[str], started: float, *, hold: bool) -> int:
    if command[0] == "python":
        # Through a pipe Python would hold its output back until it has a buffer full. With the environment variable for it, each module of
        # Ansible would be read byte by byte.
        command = ["python", "-u", *command[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()) as process:
        try:
            _pass_on(name, process, started, hold=hold)
        except KeyboardInterrupt as interrupt:
            # The terminal has told the command too; it gets the time to clean up.
            if isinstance(interrupt, Terminated):
                process.send_signal(signal.SIGINT)
            _pass_on(name, process, started, hold=hold)
            raise
    return process.returncode


def _environment() -> dict[str, str]:
    return os.environ | {
        "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)]),
        # Output goes through a pipe: some programs colour it nevertheless.
        "NO_COLOR": "1",
    }


def _pass_on(name: str, process: subprocess.Popen[bytes], started: float, *, hold: bool) -> None:
    """Copy the command's output to standard output, as it comes or as a whole at its end. Print a line every HEARTBEAT_S without output."""
    assert process.stdout is not None
    source = process.stdout.fileno()
    held: list[bytes] = []
    at_line_start, shown_at = True, time.monotonic()
    with contextlib.ExitStack() as at_end:
        selector = at_end.enter_context(selectors.DefaultSelector())
        at_end.callback(lambda: _write(f"==> {name} says\n".encode() + b"".join(held)) if held else None)
        selector.register(source, selectors.EVENT_READ)
        while True:
            if selector.select(max(0.0, shown_at + HEARTBEAT_S - time.monotonic())):
                chunk = os.read(source, CHUNK_BYTES)
                if not chunk:
                    break
                if hold:
                    held.append(chunk)
                else:
                    _write(chunk)
                    at_line_start, shown_at = chunk.endswith(b"\n"), time.monotonic()
            elif process.poll() is not None:
                break  # something that it left running keeps the pipe open
            if time.monotonic() - shown_at >= HEARTBEAT_S:
                gap = b"" if at_line_start else b"\n"
                _write(gap + f"    ... {name}: still running ({time.monotonic() - started:.0f} s)\n".encode())
                at_line_start, shown_at = True, time.monotonic()


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _terminate(*_arguments: object) -> NoReturn:
    raise Terminated


if __name__ == "__main__":
    # Tests and images have files that other users read.
    os.umask(0o022)
    # A job in the background inherits SIGINT as ignored, and the command would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(main())
