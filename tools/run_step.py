# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs one step of the Makefile: says its name, passes its output on, and shows that it lives while it is silent.

The programs of `.venv` come first on the command's PATH: python -m tools.run_step NAME -- COMMAND...
"""

from __future__ import annotations

import argparse
import os
import selectors
import subprocess
import sys
import time

from tools.paths import ENVIRONMENT

HEARTBEAT_S = 8.0
CHUNK_BYTES = 65536


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
        print(f"{error}: is it missing from requirements-dev.txt?")
        code = 127
    seconds = time.monotonic() - started
    if code != 0:
        print(f"==> {options.name}: FAILED (exit code {code}) after {seconds:.1f} s", flush=True)
    elif not options.quiet_end:
        print(f"==> {options.name}: ok in {seconds:.1f} s", flush=True)
    return code


def _run(name: str, command: list[str], started: float, *, hold: bool) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()) as process:
        try:
            _pass_on(name, process, started, hold=hold)
        except KeyboardInterrupt:
            # The terminal has told the command too; it gets the time to clean up.
            process.wait()
            raise
    return process.returncode


def _environment() -> dict[str, str]:
    return os.environ | {
        "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)]),
        # Output goes through a pipe: some programs colour it nevertheless.
        "NO_COLOR": "1",
        # Through a pipe Python would hold its output back until it has a buffer full.
        "PYTHONUNBUFFERED": "1",
    }


def _pass_on(name: str, process: subprocess.Popen[bytes], started: float, *, hold: bool) -> None:
    """Copy the command's output to standard output, as it comes or as a whole at its end, and say now and then that it lives."""
    assert process.stdout is not None
    source = process.stdout.fileno()
    held: list[bytes] = []
    at_line_start, shown_at = True, time.monotonic()
    with selectors.DefaultSelector() as selector:
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
    if held:
        _write(f"==> {name} says\n".encode() + b"".join(held))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
