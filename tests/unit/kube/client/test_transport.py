# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Compressed answers, read from a server of this test's own."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import threading
import time
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    RequestTarget,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import HEADERS, Body, Transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES, PODS

PAGE = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}
WAIT_S = 10.0
REFUSAL = {"kind": "Status", "status": "Failure", "message": "not for you", "reason": "Forbidden", "code": 403}


class Server(BaseHTTPRequestHandler):
    """Answers lists compressed if the request allows it: pods in full, nodes with a refusal; ``cut`` bytes at the end never arrive.

    ``pause``: is waited for before the second half of a body.
    """

    compressed: t.ClassVar[list[bool]] = []
    cut = 0
    pause: t.ClassVar[threading.Event | None] = None

    def do_GET(self) -> None:
        refused = "/nodes" in self.path
        body = json.dumps(REFUSAL if refused else PAGE).encode()
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "application/json")
        self.compressed.append("gzip" in self.headers.get("Accept-Encoding", ""))
        if self.compressed[-1]:
            self.send_header("Content-Encoding", "gzip")
            body = gzip.compress(body)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        if self.pause is not None:
            assert self.pause.wait(WAIT_S)
        self.wfile.write(body[half : len(body) - self.cut])

    def log_message(self, *_arguments: t.Any) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeApi]:
    monkeypatch.setattr(Server, "compressed", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = ConnectionSettings(f"http://127.0.0.1:{server.server_port}")
    yield KubeApi(Transport(Connection(lambda: settings), user_agent="test"), retry_for_s=0)
    server.shutdown()
    server.server_close()


def test_answers_may_be_compressed(api: KubeApi) -> None:
    assert [pod.metadata.name for pod in api.list_all(PODS)] == ["a"]
    assert Server.compressed == [True]


def test_so_may_refusals(api: KubeApi) -> None:
    with pytest.raises(ForbiddenError, match="not for you"):
        api.list_all(NODES)
    assert Server.compressed == [True]


def test_a_compressed_answer_that_is_cut_off_is_a_broken_connection(api: KubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "cut", 30)
    with pytest.raises(UnreachableError):
        api.list_all(PODS)


def test_a_request_ends_at_its_limit_although_bytes_still_arrive() -> None:
    """A limit of each time without data does not end such a request."""

    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            with contextlib.suppress(OSError):  # the client has ended the connection
                for _byte in range(1000):
                    self.wfile.write(b" ")
                    time.sleep(0.02)
            self.close_connection = True

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = ConnectionSettings(f"http://127.0.0.1:{server.server_port}")
    transport = Transport(Connection(lambda: settings), user_agent="test", request_timeout_s=0.5)
    began_s = time.monotonic()
    with pytest.raises(UnreachableError, match=r"the answer was not complete within 0\.5 s"):
        transport.request("get", "/", verb="get", target=RequestTarget("x"))
    assert time.monotonic() - began_s < WAIT_S
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("packed", [True, False])
def test_the_first_bytes_of_a_body_are_told_before_the_last_are_there(api: KubeApi, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    pause, told = threading.Event(), []
    noise = random.Random(1).randbytes(100_000).hex()
    monkeypatch.setitem(PAGE, "noise", noise)  # more than START_BYTES, also when packed
    monkeypatch.setattr(Server, "pause", pause)
    if not packed:
        monkeypatch.setitem(HEADERS, "Accept-Encoding", "identity")

    def on_start(start: bytes) -> None:
        told.append(start)
        pause.set()

    answer = api._transport.request("get", "/api/v1/pods", verb="list", target=RequestTarget("pods"), on_start=on_start)
    assert Server.compressed == [answer.packed] == [packed]
    (start,), body = told, answer.unpack()
    assert start.startswith(b'{"kind": "PodList"') and body.startswith(start) and len(start) < len(body)
    assert json.loads(body) == PAGE


@pytest.mark.parametrize(
    "odd",
    [{"details": [1]}, {"details": {"causes": ["x", None]}}, {"details": {"retryAfterSeconds": "²"}}, {"message": None}],
)
def test_refusals_of_another_make_are_refusals(api: KubeApi, monkeypatch: pytest.MonkeyPatch, odd: dict[str, t.Any]) -> None:
    for key, value in odd.items():
        monkeypatch.setitem(REFUSAL, key, value)
    with pytest.raises(ForbiddenError):
        api.list_all(NODES)


def test_a_compressed_answer_that_is_broken_says_so() -> None:
    with pytest.raises(UnreachableError, match="API server api:443"):
        Body(gzip.compress(b"{}" * 100)[:-8], packed=True, server="api:443").unpack()


@pytest.mark.parametrize("kind", ["page", "JSON", "Status"])
@pytest.mark.parametrize("authorization", ["Bearer abc.def-ghi", "Basic dTpwYXNz"])
def test_an_error_of_something_that_is_no_api_server_is_cut_and_shows_no_authorization(kind: str, authorization: str) -> None:
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = f"Authorization: {self.headers['Authorization']}, {authorization.split()[1]}, " + "x" * 290 + "the end"
            refusal = {"message": text} if kind == "JSON" else {**REFUSAL, "message": text}
            body = (text if kind == "page" else json.dumps(refusal)).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = ConnectionSettings(f"http://127.0.0.1:{server.server_port}", authorization=lambda: authorization)
    with pytest.raises(ForbiddenError) as caught:
        Transport(Connection(lambda: settings), user_agent="test").request("get", "/", verb="get", target=RequestTarget("it"))
    server.shutdown()
    server.server_close()
    said = str(caught.value)
    assert "Authorization: (hidden), (hidden), xxx" in said and authorization.split()[1] not in said
    assert ("the end" in said) is (kind == "Status")
