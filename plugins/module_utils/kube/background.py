# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Run calls in background threads."""

from __future__ import annotations

import threading
import typing as t
from concurrent.futures import Future

T = t.TypeVar("T")


def run_in_background(call: t.Callable[[], T]) -> Future[T]:
    """Run the call in a new thread. Return the Future of its result or of the exception that it raises.

    The program need not wait for the thread: when it ends or is interrupted, it does not wait for a server that does not answer. (Python
    always waits for the threads of a ThreadPoolExecutor.)
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="background", daemon=True).start()
    return future
