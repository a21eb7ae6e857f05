# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection with a transport whose events come at any moment, also inside of a write."""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections.abc import Awaitable

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.http.connection import IDLE_S, MOST_PIPELINED, UNREAD_S, Connection
from ansible_collections.onprem.kube_scheduling.services.common.http.limits import Limits
from ansible_collections.onprem.kube_scheduling.services.common.http.messages import Request, Response, text_response
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD_S = 10.0


class App:
    """Answers with the path. A path that begins with /slow is answered when the test wants it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.on_asked: t.Callable[[], None] = lambda: None
        self.slow: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        self.asked.append(request.path)
        self.on_asked()
        return self._later(request.path) if request.path.startswith("/slow") else text_response(200, request.path)

    async def _later(self, path: str) -> Response:
        self.slow = asyncio.get_running_loop().create_future()
        await self.slow
        return text_response(200, path)

    def refusal(self, status: int, text: str) -> Response:
        return text_response(status, text)


class Transport(asyncio.Transport):
    """Keeps what is written. ``in_write`` is called inside of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.waiting = b"", 0
        self.closed = self.paused = self.is_written_when_closed = False
        self.in_write: t.Callable[[], None] = lambda: None

    def write(self, data: t.Any) -> None:
        self.is_written_when_closed |= self.closed
        self.written += bytes(data)
        self.in_write()

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.closed

    def is_reading(self) -> bool:
        return not self.paused

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Served:
    """A connection, and what its client has got."""

    def __init__(self) -> None:
        self.app, self.transport, self.limits = App(), Transport(), Limits(1000, HEAD_S)
        self.connection = Connection(self.app, self.limits)
        self.connection.connection_made(self.transport)

    @property
    def answers(self) -> list[str]:
        """The paths that were answered, and the statuses of refusals."""
        parts = [part for part in self.transport.written.split(b"HTTP/1.1 ")[1:] if not part.startswith(b"100 ")]
        return [part.split(b"\r\n\r\n")[1].decode().strip() if part.startswith(b"200") else part[:3].decode() for part in parts]

    def is_late(self, after_s: float) -> bool:
        """Let this time pass, and return whether the connection is ended."""
        self.connection._reader.since_s -= after_s
        self.connection._sent_at_s -= after_s
        self.connection.end_if_late(time.monotonic())
        return self.transport.closed

    async def finish_slow(self) -> None:
        if not self.app.slow.done():
            self.app.slow.set_result(None)
        await steps()


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET /{path} HTTP/1.1", *headers, "", ""]).encode()


def post(path: str, body: str, *headers: str) -> bytes:
    return get(path, f"Content-Length: {len(body)}", *headers).replace(b"GET", b"POST") + body.encode()


def in_loop(test: t.Callable[[Served], t.Coroutine[None, None, None]]) -> t.Callable[[], None]:
    """Call a test with a connection in an event loop."""

    async def run() -> None:
        await test(Served())

    return lambda: asyncio.run(run())


@in_loop
async def test_a_request_that_is_refused_behind_a_slow_one_is_answered_after_it(served: Served) -> None:
    served.connection.data_received(get("slow") + get("next") + b"nonsense\r\n\r\n" + get("behind"))
    await steps()
    assert served.answers == [] and served.transport.paused
    await served.finish_slow()
    assert served.answers == ["/slow", "/next", "400"] and served.transport.closed


@in_loop
async def test_a_client_may_continue_after_the_answer_before(served: Served) -> None:
    served.connection.data_received(get("slow") + post("body", "!", "Expect: 100-continue")[:-1])
    await steps()
    assert served.transport.written == b""
    await served.finish_slow()
    assert served.transport.written.endswith(b"/slow\nHTTP/1.1 100 Continue\r\n\r\n") and not served.transport.paused
    served.connection.data_received(b"!")
    assert served.answers == ["/slow", "/body"]


@in_loop
async def test_many_requests_that_come_together_are_answered_if_none_must_wait(served: Served) -> None:
    served.connection.data_received(get("x") * 5 * MOST_PIPELINED)
    assert len(served.answers) == 5 * MOST_PIPELINED and not served.transport.closed


@in_loop
async def test_few_of_many_requests_that_come_together_are_read_if_one_must_wait(served: Served) -> None:
    began: list[None] = []
    reader = served.connection._reader
    reader._limits.body_refusal = lambda _size: began.append(None)  # type: ignore[method-assign]
    served.connection.data_received(get("slow") + post("x", "1") * 5000)
    await steps()
    assert len(began) < 1000 and len(reader.unanswered) == MOST_PIPELINED
    await served.finish_slow()
    assert served.answers == ["/slow"] + ["/x"] * MOST_PIPELINED and served.transport.closed


@in_loop
async def test_a_write_that_pauses_and_continues_keeps_the_order_and_ends_after_the_last_request(served: Served) -> None:
    def pause_and_resume() -> None:
        served.connection.pause_writing()
        served.connection.resume_writing()

    served.transport.in_write = pause_and_resume
    served.connection.data_received(get("a") + get("b") + get("c", "Connection: close") + get("d"))
    assert served.answers == ["/a", "/b", "/c"] and served.transport.closed
    assert served.transport.written.count(b"connection: close") == 1


@in_loop
async def test_the_time_of_a_body_begins_again_after_the_client_has_read_the_answer_before(served: Served) -> None:
    served.transport.in_write = served.connection.pause_writing
    served.connection.data_received(get("large") + post("body", "0123")[:-1])
    for served.transport.waiting in (1000, 500):
        assert not served.is_late(HEAD_S + 1)
    assert served.transport.paused
    served.transport.waiting, served.transport.in_write = 0, lambda: None
    served.connection.resume_writing()
    assert not served.transport.paused and not served.is_late(HEAD_S - 1)
    assert served.is_late(2) and served.answers == ["/large", "408"]


@in_loop
async def test_the_time_to_read_an_answer_begins_after_its_calculation(served: Served) -> None:
    served.transport.in_write = served.connection.pause_writing
    served.connection.data_received(get("slow"))
    await steps()
    assert not served.is_late(2 * IDLE_S)
    await served.finish_slow()
    served.transport.waiting = 1000
    assert served.answers == ["/slow"] and not served.is_late(UNREAD_S - 1)


@in_loop
async def test_a_client_that_is_gone_gets_no_answer(served: Served) -> None:
    served.connection.data_received(get("slow") + get("x"))
    await steps()
    served.transport.abort()
    await served.finish_slow()
    served.connection.data_received(get("x"))
    assert served.app.asked == ["/slow"] and not served.transport.is_written_when_closed


@pytest.mark.parametrize(
    ("data", "limit_s", "answers"),
    [
        (b"", IDLE_S, []),
        (get("x"), IDLE_S, ["/x"]),
        (get("x")[:-1], HEAD_S, []),
        (post("x", "0123")[:-1], HEAD_S, ["408"]),
        (get("slow"), None, []),
        (get("slow") + post("x", "0123")[:-1], None, []),
    ],
    ids=["nothing", "a request", "a header", "a body", "a slow request", "a slow request and a body"],
)
def test_the_time_limit_after_these_bytes(data: bytes, limit_s: float | None, answers: list[str]) -> None:
    async def run() -> None:
        served = Served()
        served.connection.data_received(data)
        await steps()
        assert not served.is_late((limit_s or 10_000) - 1)
        assert served.is_late(2) is (limit_s is not None) and served.answers == answers

    asyncio.run(run())


@in_loop
async def test_a_client_that_reads_nothing_has_less_time(served: Served) -> None:
    served.connection.data_received(get("x"))
    served.transport.waiting = 5
    assert not served.is_late(UNREAD_S - 1)
    served.transport.waiting = 4
    assert not served.is_late(2)
    assert not served.is_late(UNREAD_S - 1)
    assert served.is_late(2)


PATHS = ["a", "b", "slow1", "c", "slow2", "slow3", "d"]
BODIES = {"b": "0123456789", "slow2": "x" * 50, "c": "y"}
SENT = b"".join(post(path, BODIES[path]) if path in BODIES else get(path) for path in PATHS)
EVENTS = st.lists(
    st.sampled_from(["bytes", "many bytes", "pause in writes", "resume", "slow answer", "step", "shutdown", "lost"]), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(EVENTS)
def test_answers_have_the_order_of_the_requests_whatever_happens_meanwhile(events: list[str]) -> None:
    asyncio.run(any_order(events))


async def any_order(events: list[str]) -> None:
    served = Served()
    connection, transport = served.connection, served.transport
    is_paused, unsent = False, SENT
    ended: set[str] = set()
    asked_in_pause: list[bool] = []
    served.app.on_asked = lambda: asked_in_pause.append(is_paused)

    def pause() -> None:
        nonlocal is_paused
        if not is_paused:
            is_paused = True
            connection.pause_writing()

    def resume() -> None:
        nonlocal is_paused
        if is_paused:
            is_paused = False
            connection.resume_writing()

    async def happen(event: str) -> None:
        nonlocal unsent
        if "bytes" in event and not transport.paused and not transport.closed:
            number = 100 if event == "many bytes" else 9
            part, unsent = unsent[:number], unsent[number:]
            connection.data_received(part)
        elif event == "pause in writes":
            transport.in_write = pause
        elif event == "resume":
            transport.in_write = lambda: None
            resume()
        elif event == "slow answer":
            await served.finish_slow()
        elif event == "step":
            await steps()
        elif event == "shutdown":
            ended.add(event)
            connection.shutdown()
        elif event == "lost":
            ended.add(event)
            transport.closed = True
            connection.connection_lost(None)
        # Nothing more is read while something must wait, and only then.
        waits = connection._answering is not None or bool(connection._unanswered) or is_paused
        assert transport.closed or transport.paused is waits

    for event in events:
        await happen(event)
    for _ in range(len(SENT)):
        for event in ("many bytes", "resume", "slow answer"):
            await happen(event)
        if transport.closed or not unsent:
            break
    for _ in PATHS:
        await happen("slow answer")
    assert not any(asked_in_pause)
    expected = [f"/{path}" for path in PATHS]
    if ended:
        assert served.answers == expected[: len(served.answers)] and transport.closed
        assert "lost" in ended or served.app.asked == served.answers, "a request that has begun is answered before the end"
    else:
        assert served.answers == expected and not transport.closed
    connection.connection_lost(None)
    assert served.limits.body_bytes == 0 and not served.limits.connections and not transport.is_written_when_closed
