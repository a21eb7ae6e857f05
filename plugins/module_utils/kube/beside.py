# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Work beside the caller's own."""

from __future__ import annotations

import threading
import typing as t
from concurrent.futures import Future

T = t.TypeVar("T")


def beside(call: t.Callable[[], T]) -> Future[T]:
    """Run the call in a thread of its own, and give back what will hold its result or what it raises.

    Nobody has to wait for it: a program that ends, or is interrupted, does not wait for a server that does not answer. (The threads of a
    ThreadPoolExecutor are waited for whatever happens.)
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return future
