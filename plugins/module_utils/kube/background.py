# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Calls that run in a thread of their own while the caller goes on."""

from __future__ import annotations

import threading
import typing as t
from concurrent.futures import Future

T = t.TypeVar("T")


def run_in_background(call: t.Callable[[], T]) -> Future[T]:
    """Run the call in a thread of its own. Return the Future of its result, or of what it raises.

    Nobody has to wait for it: a program that ends, or is interrupted, does not wait for a server that does not answer. (The threads of a
    ThreadPoolExecutor are waited for whatever happens.)
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="background", daemon=True).start()
    return future
