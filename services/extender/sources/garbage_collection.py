# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Python's garbage collector during refreshes.

A view of 5,000 nodes has hundreds of thousands of objects that live until the next view. Their reference counts release them. A full
collection that visits them takes 70 ms and more, and a request of the scheduler would wait for it. So collections exclude them.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from ....plugins.module_utils.model.gc_pause import gc_paused

FULL_EVERY = 240
"""Refreshes between two full collections, which is an hour by default. They find the cycles that were excluded by mistake."""


class LongLivedObjects:
    """Excludes the objects that exist after a refresh from the collections of the whole process."""

    def __init__(self) -> None:
        self._refreshes = 0

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        """Run a refresh without collections, and exclude its objects afterwards."""
        with gc_paused():
            try:
                yield
            finally:
                self._refreshes += 1
                if self._refreshes % FULL_EVERY == 0:
                    gc.unfreeze()
                    gc.collect()
                gc.freeze()
