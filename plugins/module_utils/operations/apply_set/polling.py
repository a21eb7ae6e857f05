# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wait for a value of a cluster."""

from __future__ import annotations

import time
import typing as t

POLL_S = 1.0

Found = t.TypeVar("Found")


def polled(look: t.Callable[[], Found], is_good: t.Callable[[Found], t.Any], limit_s: float) -> Found:
    """Return the first good value, or the last one."""
    end_s = time.monotonic() + limit_s
    while True:
        found = look()
        if is_good(found) or time.monotonic() >= end_s:
            return found
        time.sleep(POLL_S)
