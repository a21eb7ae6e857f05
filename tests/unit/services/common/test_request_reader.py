# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of requests: its phases, requests that come in pieces, and what follows the last request."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.http.limits import Limits
from ansible_collections.onprem.kube_scheduling.services.common.http.messages import Refusal, Request
from ansible_collections.onprem.kube_scheduling.services.common.http.request_reader import (
    CONTINUE,
    NOT_HTTP,
    UPGRADE_WITH_BODY,
    Phase,
    RequestReader,
)

MOST = 1000
GET = b"GET /healthz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a%20b HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
CHUNKS = b"POST /chunks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\nTrailer: x\r\n\r\n"
EXPECT = b"POST /expect HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n!"
LAST = b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\n"
OLD = b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
UPGRADE = b"GET /upgrade HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
TOO_LARGE = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST + 1)


def reader() -> RequestReader:
    return RequestReader(Limits(MOST, 10.0))


def read(*parts: bytes) -> list[object]:
    """Return what is to be answered: paths with bodies, statuses of refusals, and other bytes."""
    one = reader()
    for part in parts:
        one.feed(part)
    assert one._limits.body_bytes == 0 or one.phase is Phase.BODY
    return [
        (item.path, item.body) if isinstance(item, Request) else item.status if isinstance(item, Refusal) else item
        for item in one.unanswered
    ]


@pytest.mark.parametrize(
    ("data", "phase"),
    [
        (b"", Phase.IDLE),
        (b"\r\n\r\n", Phase.IDLE),
        (b"G", Phase.HEAD),
        (GET[:-1], Phase.HEAD),
        (GET, Phase.IDLE),
        (POST[:-4], Phase.BODY),
        (POST[:-1], Phase.BODY),
        (POST, Phase.IDLE),
        (CHUNKS[:-2], Phase.BODY),
        (POST + GET[:5], Phase.HEAD),
        (LAST, Phase.ENDED),
        (OLD, Phase.ENDED),
        (UPGRADE, Phase.ENDED),
        (TOO_LARGE, Phase.ENDED),
        (b"nonsense\r\n\r\n", Phase.ENDED),
    ],
)
def test_the_phase_after_these_bytes(data: bytes, phase: Phase) -> None:
    one = reader()
    one.feed(data)
    assert one.phase is phase


STREAM = GET + POST + b"\r\n" + CHUNKS + EXPECT + GET
READ = [("/healthz", b""), ("/a b", b"body"), ("/chunks", b"abcde"), CONTINUE, ("/expect", b"!"), ("/healthz", b"")]


def test_requests_are_the_same_wherever_the_bytes_are_divided() -> None:
    assert read(STREAM) == READ
    assert read(*(STREAM[number : number + 1] for number in range(len(STREAM)))) == READ
    for number in range(len(STREAM)):
        assert read(STREAM[:number], STREAM[number:]) == READ, number


@pytest.mark.parametrize("behind", [GET, POST[:-2], b"nonsense\r\n\r\n", b"\x00" * 100_000], ids=["request", "body", "nonsense", "much"])
@pytest.mark.parametrize(
    ("last", "item"), [(LAST, ("/last", b"")), (OLD, ("/old", b"")), (UPGRADE, ("/upgrade", b"")), (TOO_LARGE, 413), (b"no\r\n\r\n", 400)]
)
def test_nothing_is_read_behind_the_last_request_or_a_refusal(last: bytes, item: object, behind: bytes) -> None:
    assert read(GET + last + behind) == [("/healthz", b""), item]
    assert read(GET, last, behind, behind) == [("/healthz", b""), item]


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (POST[:-1].replace(b"Content-Length: 4", b"Content-Length: 999\r\nContent-Length: 2"), NOT_HTTP),
        (CHUNKS.replace(b"3\r\n", b"x\r\n"), NOT_HTTP),
        (UPGRADE.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nabcde"), UPGRADE_WITH_BODY),
    ],
    ids=["two lengths", "chunk", "upgrade with a body"],
)
def test_a_refused_request_has_one_refusal_and_its_body_is_forgotten(data: bytes, refusal: Refusal) -> None:
    for parts in ([data], [data[number : number + 1] for number in range(len(data))]):
        one = reader()
        for part in parts:
            one.feed(part)
        one.refuse(Refusal(408, "late"))
        assert list(one.unanswered) == [refusal] and one._limits.body_bytes == 0


@pytest.mark.parametrize(("begun", "rest", "paths"), [(b"", GET, []), (GET[:-1], GET[-1:], []), (POST[:-2], POST[-2:] + GET, ["/a b"])])
def test_only_a_body_that_has_begun_is_read_after_a_shutdown(begun: bytes, rest: bytes, paths: list[str]) -> None:
    one = reader()
    one.feed(begun)
    one.end_after_request()
    one.feed(rest)
    assert [request.path for request in one.unanswered if isinstance(request, Request)] == paths
    assert one.phase is Phase.ENDED
