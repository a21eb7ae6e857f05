# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with a network of their own: network namespaces of Linux, each joined to this machine by a pair of virtual devices.

This needs root. What is sent to the address of a namespace arrives on its device eth0, whose counters the namespace's node_exporter reads.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.processes import has_ended, send_signal

PREFIX = "onpremlab"
NAMES = Path("/run/netns")
DEVICE = "eth0"
MTU_BYTES = 65000
"""Large packets, so that much traffic costs little time."""
NETWORK = "198.18"
"""The first half of the addresses. They are reserved for measurements between networks (RFC 2544)."""


_numbers = itertools.count()
"""No number is used again: the kernel removes the devices of a deleted namespace a while later, and their names are taken until then."""


@dataclass(frozen=True)
class NetworkNamespace:
    """A namespace: its name, and the address of its eth0."""

    name: str
    address: str

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs a program in the namespace."""
        return ["ip", "netns", "exec", self.name, *arguments]


def missing_privilege() -> str:
    """Return why this machine cannot make network namespaces, or an empty text."""
    if shutil.which("ip") is None:
        return "the program ip is missing (Debian: apt-get install iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"{PREFIX}-probe-{os.getpid()}"
    result = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return f"network namespaces are not permitted: {result.stderr.strip()}"
    _ip("netns", "delete", probe)
    return ""


@contextlib.contextmanager
def network_namespaces(count: int) -> Iterator[list[NetworkNamespace]]:
    """Make so many namespaces, and remove them afterwards. Those of processes that were killed are removed before."""
    _remove_abandoned()
    made: list[NetworkNamespace] = []
    try:
        for _number in range(count):
            made.append(_make(next(_numbers)))
        yield made
    finally:
        for namespace in made:
            _remove(namespace.name)


def _make(number: int) -> NetworkNamespace:
    name, outside = f"{PREFIX}-{os.getpid()}-{number}", f"lab{os.getpid() % 10**7}-{number}"
    network = _free_network()
    _ip("netns", "add", name)
    try:
        _ip("link", "add", outside, "mtu", str(MTU_BYTES), "type", "veth", "peer", "name", DEVICE, "mtu", str(MTU_BYTES), "netns", name)
        _ip("address", "add", f"{network}.1/24", "dev", outside)
        _ip("link", "set", outside, "up")
        _ip("-n", name, "address", "add", f"{network}.2/24", "dev", DEVICE)
        for device in ("lo", DEVICE):
            _ip("-n", name, "link", "set", device, "up")
    except LabError:
        _ip("netns", "delete", name)
        raise
    return NetworkNamespace(name, f"{network}.2")


def _free_network() -> str:
    """Return the first three numbers of addresses that no device of this machine has."""
    taken = _ip("-4", "address", "show")
    for number in range(256):
        if f" {NETWORK}.{number}." not in taken:
            return f"{NETWORK}.{number}"
    raise LabError(f"all networks of {NETWORK}.0.0/16 are in use: delete network namespaces (ip netns list)")


def _remove_abandoned() -> None:
    for path in NAMES.glob(f"{PREFIX}-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and has_ended(int(pid)):
            _remove(path.name)


def _remove(name: str) -> None:
    """End the processes of a namespace, and remove it with its devices and their other ends."""
    for pid in _ip("netns", "pids", name).split():
        send_signal(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LabError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout
