# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wait for a value of a cluster."""

from __future__ import annotations

import time
import typing as t

from ...kube.client.errors import KubeError

POLL_S = 1.0

Found = t.TypeVar("Found")


def polled(
    look: t.Callable[[], Found],
    is_good: t.Callable[[Found], t.Any],
    limit_s: float,
    *,
    poll_s: float = POLL_S,
    of_error: t.Optional[t.Callable[[KubeError], Found]] = None,
) -> Found:
    """Return the first good value, or the last one.

    ``of_error`` makes a value of an error that is not the first result. It may come from an API server that restarts.
    """
    end_s, found = time.monotonic() + limit_s, look()
    while not is_good(found) and time.monotonic() < end_s:
        time.sleep(min(poll_s, max(0.0, end_s - time.monotonic())))
        try:
            found = look()
        except KubeError as error:
            if of_error is None:
                raise
            found = of_error(error)
    return found
