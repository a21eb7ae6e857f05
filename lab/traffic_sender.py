# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send bytes to addresses at a rate, to give nodes real traffic."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping

PACKET = bytes(60_000)
PORT = 9
"""The port of the discard service. Nothing listens there; the packets count before that is noticed."""
STEP_S = 0.02


class TrafficSender:
    """Sends UDP packets in a background thread until ``stop``. ``set`` gives the bytes per second by address."""

    def __init__(self) -> None:
        self._rates: Mapping[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._thread.start()

    def set(self, rates: Mapping[str, float]) -> None:
        """Send to these addresses from now on, and to no other."""
        self._rates = dict(rates)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        owed: dict[str, float] = {}
        before_s = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not self._stopping.wait(STEP_S):
                now_s = time.monotonic()
                owed = {address: owed.get(address, 0.0) + rate * (now_s - before_s) for address, rate in self._rates.items()}
                before_s = now_s
                for address in owed:
                    while owed[address] >= len(PACKET):
                        # A full buffer, or the answer that nothing listens.
                        with contextlib.suppress(OSError):
                            sender.sendto(PACKET, (address, PORT))
                        owed[address] -= len(PACKET)
