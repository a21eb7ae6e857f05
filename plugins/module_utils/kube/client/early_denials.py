# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Tells a missing role from an API server that has just started.

For a moment after its start, until it has read all roles, an API server denies what it allows afterwards (HTTP 403).
"""

from __future__ import annotations

import threading
import typing as t

EARLY_FOR_S = 10.0
"""For how long a denial may still come from a server that has just started."""
LOST_FOR_S = 60.0
"""For how long after a lost connection a server may have just started."""

Request = tuple[str, str]
"""A verb, and where a role has to grant it."""


class EarlyDenials:
    """What one program was allowed, and when it lost its server. ``clock``: seconds, monotonic. Thread-safe.

    A denial may pass for ten seconds if the same request was allowed before, or if a connection was lost. Every other denial is final.
    ``patient``: the first server of the program counts as one that may have just started, too. That suits a program that the kubelet
    starts together with the API server.
    """

    def __init__(self, clock: t.Callable[[], float], *, patient: bool = False) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed: set[Request] = set()
        self._denied_since_s: dict[Request, float] = {}
        self._lost_at_s: t.Optional[float] = clock() if patient else None

    def note_allowed(self, request: Request) -> None:
        """The server has let the request through."""
        with self._lock:
            self._allowed.add(request)
            self._denied_since_s.pop(request, None)

    def note_lost(self) -> None:
        """A connection was lost, so that the next answer may be that of a server that has just started."""
        with self._lock:
            self._lost_at_s = self._clock()
            self._denied_since_s.clear()

    def is_early(self, request: Request) -> bool:
        """The server has denied the request now: whether it may allow the request soon."""
        with self._lock:
            now_s = self._clock()
            lost = self._lost_at_s is not None and now_s - self._lost_at_s < LOST_FOR_S
            if request not in self._allowed and not lost and request not in self._denied_since_s:
                return False
            return now_s - self._denied_since_s.setdefault(request, now_s) < EARLY_FOR_S
