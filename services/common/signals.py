# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What signals ask of the loop, and threads that have died of an error."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class ThreadDiedError(Exception):
    """A thread without which the program must not go on has ended; its error is the cause."""


class StoppedAtStartError(Exception):
    """A signal has asked for the end before anything was begun."""


class ShutdownSignal:
    """``install`` makes it hear of signals and threads.

    ``stopping``: a first SIGTERM or SIGINT has asked for an end in good order; ``force``: a second one.
    """

    def __init__(self) -> None:
        # No Event: its lock might be held by the very code that a signal interrupts.
        self.stopping = False
        self._died: threading.ExceptHookArgs | None = None
        self.force = False
        self._at_start = False

    def install(self) -> None:
        """From the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._hear())
        threading.excepthook = self._note

    def request_stop(self) -> None:
        """Ask for the end."""
        self.force = self.stopping
        self.stopping = True

    @contextlib.contextmanager
    def stop_raises(self) -> Iterator[None]:
        """While the block runs in the main thread, a signal ends it by StoppedAtStartError: it may wait long, and nothing is begun yet."""
        self._at_start = True
        try:
            if self.stopping:
                raise StoppedAtStartError
            yield
        finally:
            self._at_start = False

    def _hear(self) -> None:
        self.request_stop()
        if self._at_start:
            self._at_start = False
            raise StoppedAtStartError

    def check(self) -> None:
        """Raise ThreadDiedError where a thread has died."""
        died = self._died
        if died is not None:
            name = died.thread.name if died.thread is not None else "?"
            raise ThreadDiedError(f"the thread {name} has died") from died.exc_value

    def _note(self, died: threading.ExceptHookArgs) -> None:
        self._died = self._died or died
