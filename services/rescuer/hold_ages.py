# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The age of the holds in the cluster, whichever program made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...plugins.module_utils.state.hold import Hold


class HoldAges:
    """The times at which the current holds were made.

    ``now_s`` returns the time of the API server's clock. Each hold has the time of that clock too, so the clocks of the machines on which
    leaders run do not matter. A hold without a known time counts from the moment at which this process first saw it.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._since_s: dict[tuple[str, Hold], float] = {}

    def update(self, holds: Mapping[str, Hold]) -> None:
        """Note the current holds, by node name."""
        now_s = self._now_s()
        since_s = {}
        for key in holds.items():
            known_s = key[1].since_s
            since_s[key] = known_s if known_s is not None else self._since_s.get(key, now_s)
        self._since_s = since_s

    def oldest_s(self) -> float:
        """Return the seconds since the oldest hold was made, up to now, also if no update was possible lately. 0 without a hold.

        A metrics thread calls this.
        """
        since_s = self._since_s.values()
        return max(0.0, self._now_s() - min(since_s)) if since_s else 0.0
