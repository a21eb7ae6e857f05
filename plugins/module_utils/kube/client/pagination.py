# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pages of a list, two of them on their way while the caller works on the one before.

A page begins with the token of the one after it. So that one is asked for while the rest of the page is still being written, and the
server, which takes longer to write a page than the caller to decode it, writes two at a time.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Generator
from concurrent.futures import Future
from queue import SimpleQueue

from ..background import run_in_background
from .transport import Body

PREFETCHED_PAGES = 2
"""Pages that are being read or wait to be taken; more would take memory and gain nothing."""

OnToken = t.Callable[[str], None]
Read = t.Callable[[str, OnToken], Body]
"""Reads the page of a continue token, empty for the first page, and may tell the token of the page after it early, once or more often."""
TokenOf = t.Callable[[Body], str]
"""The token of the page after this one, empty where it is the last."""


def pages(read: Read, token_of: TokenOf) -> Generator[Body, None, None]:
    """All pages in order. Raises what ``read`` raises; where the caller stops early, no further page is begun."""
    # A second attempt at the first page may begin another list, with other tokens.
    first = read("", _ignore_token)
    token = token_of(first)
    if not token:
        yield first
        return
    ahead = _Prefetcher(read, token_of)
    coming = ahead.begin(token)
    try:
        yield first
        del first  # pages are large
        while coming is not None:
            body, coming = ahead.take(coming)
            yield body
    finally:
        ahead.end()


class _Page(t.NamedTuple):
    body: Body
    following: t.Optional[Future[_Page]]


class _Prefetcher:
    """Reads pages beside the caller, each as soon as there is room for it."""

    def __init__(self, read: Read, token_of: TokenOf) -> None:
        self._read, self._token_of = read, token_of
        self._tasks: SimpleQueue[t.Optional[tuple[str, Future[_Page]]]] = SimpleQueue()
        self._room = threading.Semaphore(PREFETCHED_PAGES)
        self._ended = False
        # No thread for each page: every thread that ever was leaves some memory behind that only its like can use.
        for _number in range(PREFETCHED_PAGES):
            run_in_background(self._work)

    def begin(self, token: str) -> t.Optional[Future[_Page]]:
        """The page that will be there; None for no token."""
        if not token:
            return None
        page: Future[_Page] = Future()
        self._tasks.put((token, page))
        return page

    def take(self, coming: Future[_Page]) -> _Page:
        """Wait for a page, and make room for another one."""
        page = coming.result()
        self._room.release()
        return page

    def end(self) -> None:
        """Begin nothing more. What is being read is not waited for, and nobody looks at it."""
        self._ended = True
        for _number in range(PREFETCHED_PAGES):
            self._tasks.put(None)
        self._room.release(PREFETCHED_PAGES)

    def _work(self) -> None:
        while True:
            self._room.acquire()
            task = self._tasks.get()
            if task is None or self._ended:
                return
            token, page = task
            try:
                page.set_result(self._page(token))
            except BaseException as error:
                page.set_exception(error)

    def _page(self, token: str) -> _Page:
        following: list[t.Optional[Future[_Page]]] = []

        def on_token(token: str) -> None:
            if not following:
                following.append(self.begin(token))

        body = self._read(token, on_token)
        return _Page(body, following[0] if following else self.begin(self._token_of(body)))


def _ignore_token(_token: str) -> None:
    """Nothing is begun."""
