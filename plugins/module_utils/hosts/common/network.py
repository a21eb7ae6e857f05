# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The network of a host that programs of the role extended_scheduler share with it."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator

from .system import Run, listeners


def port_problems(run: Run, ports: Collection[str], own: Collection[int], secure_port: str = "") -> Iterator[str]:
    """Yield the end of a sentence for each program at one of the ports that is none of the ``own`` processes."""
    for found in listeners(run, ports):
        if not set(own).intersection(found.pids):
            is_secure = found.address.rpartition(":")[2] == secure_port
            remedy = ", or set extended_scheduler_secure_port to another port" if is_secure else ""
            unit = f", unit {found.unit}" if found.unit else ""
            yield f": {found.address} is used by {found.program} (PID {found.pids[0]}{unit}): stop it{remedy}"


def name_problems(names: Collection[str]) -> Iterator[str]:
    """Yield the end of a sentence for each name that the host does not resolve."""
    for name in names:
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            yield (
                f" does not resolve {name}, the host of a source. The extender has the network of the host, which does not use the DNS "
                "of the cluster: write the cluster IP of the Service on a node, the address of a NodePort, or a name of your own DNS"
            )
