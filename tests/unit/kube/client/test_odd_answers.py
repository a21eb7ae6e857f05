# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Answers that no API server gives, but something in its place does: redirects, pages of a load balancer, huge bodies, odd dates."""

from __future__ import annotations

import gzip
import threading
import time
import typing as t
from collections.abc import Iterator
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.authorization import bearer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    KubeError,
    OverloadedError,
    UnreachableError,
    is_transient,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http import transport as transport_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import (
    LONGEST_RETRY_AFTER_S,
    MAX_ERROR_BYTES,
    Transport,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS

PAGE = b"<html><body>Bad gateway</body></html>"


class Server(ThreadingHTTPServer):
    """Answers everything as it is told; ``asked`` are the methods and headers of the requests, ``sent`` the bytes of the last body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.status, self.headers, self.body = 200, {}, b"{}"  # type: tuple[int, dict[str, str], bytes]
        self.endless = False
        self.asked: list[tuple[str, Message]] = []
        self.sent = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: t.Any = self.server
        server.asked.append((self.command, self.headers))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response_only(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        if not server.endless:
            self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        try:
            self.wfile.write(server.body)
            while server.endless:
                self.wfile.write(b"x" * 65_536)
                server.sent += 65_536
        except OSError:  # the client has seen enough
            self.close_connection = True

    do_POST = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_arguments: t.Any) -> None:
        pass


def running() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    yield from running()


def api_of(server: Server) -> tuple[KubeApi, Transport]:
    settings = ConnectionSettings(
        f"http://127.0.0.1:{server.server_port}", authorization=bearer("a-secret-token"), headers=(("Impersonate-User", "admin"),)
    )
    transport = Transport(Connection(lambda: settings), user_agent="test")
    return KubeApi(transport, retry_for_s=0), transport


def get(api: KubeApi) -> KubeError:
    with pytest.raises(KubeError) as caught:
        api.get(PODS, "app", "web")
    return caught.value


@pytest.fixture
def other() -> Iterator[Server]:
    yield from running()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_a_redirect_is_an_error_and_neither_body_nor_headers_go_to_another_host(
    server: Server, other: Server, method: str, status: int
) -> None:
    server.status, server.headers = status, {"Location": f"http://127.0.0.1:{other.server_port}/login"}
    api, _transport = api_of(server)
    with pytest.raises(ApiError) as caught:
        if method == "GET":
            api.get(PODS, "app", "web")
        elif method == "POST":
            api.evict("app", "web", uid="u")
        else:
            api.merge_patch(PODS, "app", "web", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}})
    assert caught.value.status == status
    ((asked, headers),) = server.asked
    assert (asked, headers["Authorization"], headers["Impersonate-User"]) == (method, "Bearer a-secret-token", "admin")
    assert other.asked == []


def test_no_request_asks_urllib3_to_follow_redirects(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer versions of urllib3 do not follow them with ``retries=False``, and older ones do."""
    asked = []
    urlopen = urllib3.PoolManager.urlopen

    def recorded(manager: urllib3.PoolManager, *arguments: t.Any, redirect: bool = True, **options: t.Any) -> t.Any:
        asked.append(redirect)
        return urlopen(manager, *arguments, redirect=redirect, **options)

    monkeypatch.setattr(urllib3.PoolManager, "urlopen", recorded)
    get(api_of(server)[0])
    assert asked == [False]


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("packed", [False, True])
def test_the_page_of_a_load_balancer_is_an_error_that_may_pass(server: Server, status: int, packed: bool) -> None:
    server.status, server.body = status, gzip.compress(PAGE) if packed else PAGE
    server.headers = {"Content-Type": "text/html", **({"Content-Encoding": "gzip"} if packed else {})}
    error = get(api_of(server)[0])
    assert isinstance(error, ApiError) and error.status == status and is_transient(error) and "Bad gateway" in str(error)


def test_a_page_in_the_place_of_an_answer_is_no_answer(server: Server) -> None:
    server.body, server.headers = PAGE, {"Content-Type": "text/html; charset=utf-8"}
    api, _transport = api_of(server)
    assert isinstance(get(api), UnreachableError)
    with pytest.raises(UnreachableError, match="an HTML page"):  # and not an eviction
        api.evict("app", "web", uid="u")


def test_an_endless_error_is_read_only_at_its_beginning(server: Server) -> None:
    server.status, server.endless, server.body = 500, True, b"trouble "
    api, _transport = api_of(server)
    error = get(api)
    assert isinstance(error, ApiError) and "trouble" in str(error) and len(str(error)) < 1000
    server.endless, server.status, server.body = False, 404, b""
    assert isinstance(get(api), ApiError), "the next request has a connection of its own"
    assert server.sent < 1000 * MAX_ERROR_BYTES


@pytest.mark.parametrize("asked", ["3600", "9" * 400])
def test_a_server_that_asks_for_an_hour_is_asked_again_after_a_minute(server: Server, asked: str) -> None:
    server.status, server.headers = 429, {"Retry-After": asked}
    error = get(api_of(server)[0])
    assert isinstance(error, OverloadedError) and error.retry_after_s == LONGEST_RETRY_AFTER_S


class Clock:
    """The module ``time`` whose monotonic clock is set."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def test_an_answer_that_took_long_does_not_turn_the_clock_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(transport_module, "time", clock)
    settings = ConnectionSettings("http://127.0.0.1:1")
    transport = Transport(Connection(lambda: settings), user_agent="test")
    transport._note_time({"Date": formatdate(5000, usegmt=True)}, 1000.0)
    assert transport.server_time_s == 5000
    clock.now_s = 1030.0
    transport._note_time({"Date": formatdate(5001, usegmt=True)}, 1000.5)
    assert transport.server_time_s == 5030, "it was written half a minute before it was read"
    transport._note_time({"Date": formatdate(5028, usegmt=True)}, 1029.9)
    assert transport.server_time_s == pytest.approx(5029.1), "another server's clock is behind"
    transport._note_time({"Date": formatdate(5040, usegmt=True)}, 1030.0)
    assert transport.server_time_s == 5040
    for odd in ("yesterday", "Mon, 99 Foo 2026 99:99:99 GMT", ""):
        transport._note_time({"Date": odd}, 1030.0)
    assert transport.server_time_s == 5040
