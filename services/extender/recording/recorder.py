# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes requests and views to a file, so that an agent can be developed without a cluster (see ``replay.py``).

The file contains pods as kube-scheduler sends them, with the values of their environment variables. Only its owner can read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

from ...common.log import Log
from ..interface import NodeView
from ..sources.kubernetes.pod_tracker import Outcome
from ..sources.view import ClusterView, ViewListener
from .lines import Line, OutcomeLine, RequestLine, ViewLine, encode_line, node_line

MAX_BYTES = 2**30
"""The recorder ends before the file is longer."""


class Recorder:
    """Receives what the sources find, writes it and passes it on, and receives the requests. It is a ``ViewListener``.

    A view is written when the first request follows, because most refreshes are followed by none. The constructor raises OSError, also if
    the file is a symbolic link. Later no error of the recorder reaches the caller: the recording ends with a line in the log.
    """

    def __init__(
        self, file: Path, listener: ViewListener, log: Log, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._listener, self._log, self._max_bytes, self._clock = listener, log, max_bytes, clock
        self._lock = threading.Lock()
        self._file: t.BinaryIO | None = _opened(file)
        self._written = 0
        self._waiting: ClusterView | None = None

    def on_view(self, view: ClusterView) -> None:
        """Keep the view for the next request, and pass it on."""
        with self._lock:
            self._waiting = view
        self._listener.on_view(view)

    def on_node(self, node: NodeView) -> None:
        """Write the node, and pass it on."""
        with self._recording():
            self._write_view()
            self._write(node_line(node, self._clock()))
        self._listener.on_node(node)

    def on_outcome(self, outcome: Outcome) -> None:
        """Write the outcome, and pass it on."""
        with self._recording():
            self._write(OutcomeLine(outcome.at_s, outcome.pod, outcome.node, outcome.succeeded))
        self._listener.on_outcome(outcome)

    def record(self, path: str, body: bytes) -> None:
        """Write a request. A body that is not JSON is not written."""
        if self._file is None:
            return
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            return
        with self._recording():
            self._write_view()
            self._write(RequestLine(self._clock(), path, content))
            if self._file is not None:
                self._file.flush()

    def close(self) -> None:
        """End the recording."""
        with self._lock:
            self._close()

    def _write_view(self) -> None:
        view, self._waiting = self._waiting, None
        if view is None:
            return
        at_s = self._clock()
        self._write(ViewLine(at_s, view.version, dict(view.errors)))
        for node in view.nodes.values():
            self._write(node_line(node, at_s))

    def _write(self, line: Line) -> None:
        if self._file is None:
            return
        data = encode_line(line)
        if self._written + len(data) > self._max_bytes:
            self._log.warning("the recording has ended, because the file has its maximum length", bytes=self._written)
            self._close()
            return
        self._file.write(data)
        self._written += len(data)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        """Hold the lock. An error ends the recording: the disk can be full, and a text can be one that UTF-8 does not have."""
        with self._lock:
            try:
                yield
            except Exception as error:
                self._log.warning("the recording has ended, because the file cannot be written", error=str(error))
                self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            self._log.warning("the end of the recording is missing", error=str(error))


def _opened(file: Path) -> t.BinaryIO:
    """Return the empty file, which only its owner can read. Raises OSError, also if another process writes it."""
    # A link could lead to any file of this user.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            # A second extender must not empty the recording, for example one that then ends because its address is in use.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
        # The mode of a file that exists already does not follow from that of os.open.
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "wb")
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise OSError(f"another process writes the recording {file}") from None
        raise
