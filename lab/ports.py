# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Free TCP ports for clusters that start at the same time.

A reservation lives as long as the cluster's folder, so that a restarted component finds its port again.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError
from lab.layout import cache_dir
from lab.locks import locked

# Below the kernel's range for outgoing connections (32768 and up), so that no client socket takes one of ours.
DEFAULT_RANGE = "20000-31999"


def reserve(folder: Path, count: int) -> list[int]:
    """Reserve `count` free ports for the cluster in `folder`; earlier reservations of it are released."""
    with locked(cache_dir() / "ports.lock"):
        taken = {port: owner for port, owner in _read().items() if Path(owner).exists() and owner != str(folder)}
        found = [port for port, _ in zip(_free(taken), range(count), strict=False)]
        if len(found) < count:
            raise LabError(
                f"ports: {count} free TCP ports are needed in {_range_text()}, found {len(found)}. "
                "Set LAB_PORTS to a larger range, e.g. LAB_PORTS=20000-31999, or bring down other clusters "
                "(python -m lab down)."
            )
        _write(taken | {port: str(folder) for port in found})
        return found


def release(folder: Path) -> None:
    """Release the ports of the cluster in `folder`."""
    with locked(cache_dir() / "ports.lock"):
        _write({port: owner for port, owner in _read().items() if owner != str(folder)})


def is_free(port: int) -> bool:
    """Return whether a server can bind the port on the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until_free(port: int, *, timeout_s: float) -> None:
    """Wait until the port can be bound; after that time the program that binds it reports the error."""
    deadline = time.monotonic() + timeout_s
    while not is_free(port) and time.monotonic() < deadline:
        time.sleep(0.02)


def _free(taken: dict[int, str]) -> Iterator[int]:
    first, last = _range()
    return (port for port in range(first, last + 1) if port not in taken and is_free(port))


def _range_text() -> str:
    return os.environ.get("LAB_PORTS") or DEFAULT_RANGE


def _range() -> tuple[int, int]:
    first, dash, last = _range_text().partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) <= 65535):
        raise LabError(f"LAB_PORTS={_range_text()!r}: write a range such as {DEFAULT_RANGE}")
    return int(first), int(last)


def _book() -> Path:
    return cache_dir() / "ports.json"


def _read() -> dict[int, str]:
    try:
        return {int(port): str(owner) for port, owner in json.loads(_book().read_text()).items()}
    except (FileNotFoundError, ValueError):
        return {}


def _write(taken: dict[int, str]) -> None:
    fresh = _book().with_suffix(".tmp")
    fresh.write_text(json.dumps(taken, indent=1))
    fresh.replace(_book())
