# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A clock that a test sets."""

from __future__ import annotations


class SetClock:
    """A monotonic clock that only ``now_s`` and ``sleep`` move. It can also replace the module ``time``."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
