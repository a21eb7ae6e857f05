# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether the loop still turns, and whether it can do its work; written by the loop, read by the endpoints."""

from __future__ import annotations

import time
import typing as t

UNHEALTHY_AFTER_S = 60.0


class Health:
    """``clock``: seconds, monotonic."""

    def __init__(self, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat_at_s = clock()
        self._unready: tuple[str, ...] = ("it has not started yet",)

    def heartbeat(self) -> None:
        """The loop has turned."""
        self._beat_at_s = self._clock()

    def set_unready(self, unready: t.Iterable[str]) -> None:
        """What keeps it from its work; empty where nothing does."""
        self._unready = tuple(unready)

    @property
    def unhealthy(self) -> str:
        """Why the process should be started again; empty where it should not."""
        since_s = self._clock() - self._beat_at_s
        return f"the loop has stood still for {since_s:.0f} s" if since_s > UNHEALTHY_AFTER_S else ""

    @property
    def unready(self) -> str:
        """Why it cannot do its work now; empty where it can."""
        return "; ".join(filter(None, (self.unhealthy, *self._unready)))
