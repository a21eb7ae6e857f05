# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits that all connections of one address share: their number, the bytes of bodies, and the bytes of answers that wait."""

from __future__ import annotations

import typing as t
from collections import Counter

from ..cgroup import MIB, memory_limit
from .messages import Refusal

MAX_CONNECTIONS, MAX_OF_ADDRESS = 512, 256
"""Open connections in sum, and of one client address. The next one replaces an idle one. kube-scheduler has at most 100 idle ones."""

HEAD_S = 10.0
"""Seconds from the first byte of a header to its end, and from there to the end of the body."""

LARGE_BODIES = 4
"""The number of bodies of the maximum size that can be received at the same time."""

LEAST_WAITING_BYTES, MOST_WAITING_BYTES = 8 * MIB, 64 * MIB
PART_OF_MEMORY = 16
"""The waiting bytes may use a sixteenth of the container's memory. The JSON of /status has 8 MB at 5,000 nodes."""


class Limited(t.Protocol):
    """A connection that can be ended. ``address``: that of the client."""

    address: str

    @property
    def active_at_s(self) -> float:
        """Return the time of the last step of a request."""

    @property
    def precedence(self) -> int:
        """Return 0 before the end of the TLS handshake. A connection with the lowest number is replaced first."""

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of answers that wait until the client reads."""

    def end_if_late(self, now_s: float) -> None:
        """End the connection if it takes too long."""

    def shutdown(self) -> None:
        """End the connection after its request."""

    def drop(self) -> None:
        """End the connection now."""


class Limits:
    """The open connections of an address. ``body_bytes``: the bytes of the bodies that are received now."""

    def __init__(self, max_body_bytes: int, head_s: float) -> None:
        self.head_s = head_s
        self.connections: set[Limited] = set()
        self.body_bytes, self._max_body_bytes = 0, max_body_bytes
        self._most_waiting_bytes = most_waiting_bytes()

    def add(self, new: Limited) -> None:
        """Add a connection. If there are too many, drop the one that was idle for the longest time, of the address with most connections.

        So a machine that opens many connections replaces only its own, and those of the scheduler stay. A connection whose TLS handshake is
        not complete is dropped first. So machines without a certificate cannot replace a client that has one.
        """
        others = list(self.connections)
        self.connections.add(new)
        count = Counter(one.address for one in others)
        if count[new.address] >= MAX_OF_ADDRESS:
            crowded = new.address
        elif len(others) >= MAX_CONNECTIONS:
            handshakes = Counter(one.address for one in others if one.precedence == 0)
            crowded = (handshakes or count).most_common(1)[0][0]
        else:
            return
        self._drop(min((one for one in others if one.address == crowded), key=lambda one: (one.precedence, one.active_at_s)))

    def body_refusal(self, size: int) -> Refusal | None:
        """Return the reason why a body with so many bytes is not received, or None."""
        if size > self._max_body_bytes:
            if not self._max_body_bytes:
                return Refusal(413, "requests have no body here")
            text = f"the body has more than {self._max_body_bytes} bytes: raise server.max_body_bytes, or set nodeCacheCapable: true"
            return Refusal(413, text)
        most = LARGE_BODIES * self._max_body_bytes
        if self.body_bytes > most:
            return Refusal(503, f"the bodies that are received at the same time have more than {most} bytes: try again")
        return None

    def limit_waiting_bytes(self, newest: Limited | None = None) -> None:
        """Drop the connections with most waiting bytes until all together are within the limit.

        The connection that has just got an answer, ``newest``, stays: its client could not read yet.
        """
        waiting = {one: one.waiting_bytes for one in self.connections}
        while sum(waiting.values()) > self._most_waiting_bytes and len(waiting) > 1:
            dropped = max((one for one in waiting if one is not newest), key=lambda one: waiting[one])
            del waiting[dropped]
            self._drop(dropped)

    def _drop(self, one: Limited) -> None:
        # It may take a while until the transport calls connection_lost.
        self.connections.discard(one)
        one.drop()


def most_waiting_bytes() -> int:
    """Return the limit for the bytes that wait in all connections of one address."""
    limit = memory_limit()
    return MOST_WAITING_BYTES if limit is None else min(MOST_WAITING_BYTES, max(LEAST_WAITING_BYTES, limit // PART_OF_MEMORY))
