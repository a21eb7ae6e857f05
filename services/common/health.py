# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The health and the readiness of the loop. The loop writes them, and the endpoints read them."""

from __future__ import annotations

import time
import typing as t

UNHEALTHY_AFTER_S = 60.0


class Health:
    """The health and the readiness of the program. ``clock``: seconds, monotonic."""

    def __init__(self, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat_at_s = clock()
        self._unready: tuple[str, ...] = ("it has not started yet",)

    def heartbeat(self) -> None:
        """Note that the loop is running."""
        self._beat_at_s = self._clock()

    def set_unready(self, unready: t.Iterable[str]) -> None:
        """Set the reasons why the program cannot do its work. They are empty if it can."""
        self._unready = tuple(unready)

    @property
    def unhealthy_reason(self) -> str:
        """Return the reason why the process should be restarted. It is empty if it should not."""
        since_s = self._clock() - self._beat_at_s
        return f"the loop has not run for {since_s:.0f} s" if since_s > UNHEALTHY_AFTER_S else ""

    @property
    def unready_reason(self) -> str:
        """Return the reason why the program cannot do its work now. It is empty if it can."""
        return "; ".join(filter(None, (self.unhealthy_reason, *self._unready)))
