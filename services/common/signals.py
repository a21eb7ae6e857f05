# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Signals that stop the loop, and threads that ended with an error."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class ThreadDiedError(Exception):
    """A required thread has ended. Its error is the cause."""


class StoppedAtStartError(Exception):
    """A signal has stopped the program before it began its work."""


class ShutdownSignal:
    """The state of signals and threads. ``install`` registers the handlers.

    ``stopping``: a first SIGTERM or SIGINT has requested an orderly end. ``force``: a second one was received.
    """

    def __init__(self) -> None:
        # An Event is not used: its lock might be held by the code that the signal interrupts.
        self.stopping = False
        self._died: threading.ExceptHookArgs | None = None
        self.force = False
        self._at_start = False

    def install(self) -> None:
        """Register the handlers. Must be called from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._on_signal())
        threading.excepthook = self._note

    def request_stop(self) -> None:
        """Request the end of the program. The second request sets ``force``."""
        self.force = self.stopping
        self.stopping = True

    @contextlib.contextmanager
    def stop_raises(self) -> Iterator[None]:
        """Let a signal raise StoppedAtStartError while the block runs in the main thread.

        The block may wait for a long time, and no work has begun yet.
        """
        self._at_start = True
        try:
            if self.stopping:
                raise StoppedAtStartError
            yield
        finally:
            self._at_start = False

    def _on_signal(self) -> None:
        self.request_stop()
        if self._at_start:
            self._at_start = False
            raise StoppedAtStartError

    def raise_thread_errors(self) -> None:
        """Raise ThreadDiedError if a thread has ended with an error."""
        died = self._died
        if died is not None:
            name = died.thread.name if died.thread is not None else "?"
            raise ThreadDiedError(f"the thread {name} has ended unexpectedly") from died.exc_value

    def _note(self, died: threading.ExceptHookArgs) -> None:
        self._died = self._died or died
