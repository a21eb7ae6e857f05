# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Distinguish a missing role from an API server that has just started.

For a moment after its start, until it has read all roles, an API server denies requests that it allows later (HTTP 403).
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from collections.abc import Iterator

from .errors import ApiError, ForbiddenError, UnreachableError

EARLY_FOR_S = 10.0
"""Seconds during which a denial may come from a server that has just started."""
LOST_FOR_S = 60.0
"""Seconds after a lost connection during which a server may have just started."""

BEFORE_AUTHORIZATION = (401, 429)
"""Statuses that are sent before the roles of the user are checked."""
NO_SERVER = (502, 503, 504)
"""Statuses of a load balancer without a server, and of a server that is stopping or starting."""

Request = tuple[str, str]
"""A verb, and the resource and namespaces in which a role has to grant it."""


class EarlyDenials:
    """The requests that one program was allowed, and the time at which it lost its server. ``clock``: seconds, monotonic. Thread-safe.

    A denial counts as early for ten seconds if the same request was allowed before, or if a connection was lost. Every other denial is
    final.
    ``patient``: the first server of the program also counts as one that may have just started. This is for a program that the kubelet
    starts together with the API server.
    """

    def __init__(self, clock: t.Callable[[], float], *, patient: bool = False) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed: set[Request] = set()
        self._denied_since_s: dict[Request, float] = {}
        self._lost_at_s: t.Optional[float] = clock() if patient else None

    def note_allowed(self, request: Request) -> None:
        """Note that the server has allowed the request."""
        with self._lock:
            self._allowed.add(request)
            self._denied_since_s.pop(request, None)

    def note_lost(self) -> None:
        """Note that a connection was lost. The next answer may come from a server that has just started."""
        with self._lock:
            self._lost_at_s = self._clock()
            self._denied_since_s.clear()

    def is_early(self, request: Request) -> bool:
        """Return whether the server may soon allow the request, which it has denied now."""
        with self._lock:
            now_s = self._clock()
            lost = self._lost_at_s is not None and now_s - self._lost_at_s < LOST_FOR_S
            if request not in self._allowed and not lost and request not in self._denied_since_s:
                return False
            return now_s - self._denied_since_s.setdefault(request, now_s) < EARLY_FOR_S

    @contextlib.contextmanager
    def noting(self, request: Request) -> Iterator[None]:
        """Note the outcome of a request. A ForbiddenError then says whether it is early."""
        try:
            yield
        except ForbiddenError as error:
            error.early = error.lacks_role and self.is_early(request)
            raise
        except UnreachableError:
            self.note_lost()
            raise
        except ApiError as error:
            if error.status in BEFORE_AUTHORIZATION:
                raise
            if error.status in NO_SERVER:
                self.note_lost()
            else:
                self.note_allowed(request)
            raise
        self.note_allowed(request)
