# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pages that are read ahead: their order, how far ahead, and what happens when one cannot be read or nobody wants them any more."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Body
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.pagination import PREFETCHED_PAGES, OnToken, pages

WAIT_S = 10.0


class Book:
    """``last`` pages, whose tokens are their numbers. ``early``: the token of the next one is told before the page is there."""

    def __init__(self, last: int, *, early: bool = True, broken: int = 0) -> None:
        self._last, self._early, self._broken = last, early, broken
        self.begun: list[int] = []

    def read(self, token: str, on_token: OnToken) -> Body:
        number = int(token or "1")
        self.begun.append(number)
        if self._early:
            on_token(self._after(number))
            on_token(self._after(number))  # as a second attempt would
        if number == self._broken:
            raise OSError(f"page {number}")
        return _page(number)

    def token_of(self, page: Body) -> str:
        return self._after(int(page.data))

    def _after(self, number: int) -> str:
        return str(number + 1) if number < self._last else ""

    def wait_until_begun(self, number: int) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while len(self.begun) < number:
            assert time.monotonic() < deadline_s, self.begun
            time.sleep(0.001)

    def pages(self) -> t.Generator[Body, None, None]:
        return pages(self.read, self.token_of)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("last", [1, 2, 3, 40])
def test_every_page_comes_once_and_in_order(last: int, early: bool) -> None:
    book = Book(last, early=early)
    numbers = list(range(1, last + 1))
    assert [int(page.data) for page in book.pages()] == numbers
    assert book.begun == numbers


def test_a_page_is_asked_for_before_the_one_before_it_is_there() -> None:
    asked = threading.Event()

    class Slow(Book):
        def read(self, token: str, on_token: OnToken) -> Body:
            page = super().read(token, on_token)
            if token == "3":
                asked.set()
            if token == "2":
                assert asked.wait(WAIT_S), "page 3 waits for page 2"
            return page

    assert list(Slow(3).pages()) == [_page(1), _page(2), _page(3)]


def test_no_more_pages_wait_than_the_limit_allows() -> None:
    book = Book(40)
    found = book.pages()
    for taken in range(1, 10):
        next(found)
        book.wait_until_begun(taken + PREFETCHED_PAGES)
        time.sleep(0.02)
        assert len(book.begun) == taken + PREFETCHED_PAGES
    found.close()


@pytest.mark.parametrize("early", [True, False])
def test_a_page_that_cannot_be_read_is_told_after_those_before_it(early: bool) -> None:
    found = Book(9, early=early, broken=4).pages()
    assert [next(found) for _number in range(3)] == [_page(1), _page(2), _page(3)]
    with pytest.raises(OSError, match="page 4"):
        next(found)
    _wait_until_nobody_reads()


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_nothing_is_begun_once_the_caller_has_stopped(taken: int) -> None:
    book = Book(40)
    found = book.pages()
    for _number in range(taken):
        next(found)
    book.wait_until_begun(taken + PREFETCHED_PAGES)
    found.close()
    _wait_until_nobody_reads()
    assert len(book.begun) == taken + PREFETCHED_PAGES


def test_a_caller_that_stops_does_not_wait_for_what_is_being_read() -> None:
    reading, release = threading.Event(), threading.Event()

    class Stuck(Book):
        def read(self, token: str, on_token: OnToken) -> Body:
            if token == "2":
                reading.set()
                assert release.wait(WAIT_S)
            return super().read(token, on_token)

    book = Stuck(40)
    found = book.pages()
    next(found)
    assert reading.wait(WAIT_S)
    found.close()
    readers = _readers()
    assert readers and all(reader.daemon for reader in readers), "it would keep the program from ending"
    release.set()
    _wait_until_nobody_reads()
    assert book.begun == [1, 2]


def _page(number: int) -> Body:
    return Body(b"%d" % number, packed=False, server="test")


def _wait_until_nobody_reads() -> None:
    for reader in _readers():
        reader.join(WAIT_S)
    assert not _readers()


def _readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "background"]
