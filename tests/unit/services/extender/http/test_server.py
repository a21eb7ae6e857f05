# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server over real connections: TLS and its renewal, the end of the program, and requests of odd sizes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal
from ansible_collections.onprem.kube_scheduling.services.extender.http import connections, handshakes
from ansible_collections.onprem.kube_scheduling.services.extender.http.connections import replace_another
from ansible_collections.onprem.kube_scheduling.services.extender.http.server import HttpServer, Listener
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls import TlsChange, TlsFiles, TlsWatch, make_context
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls_renewal import renew

from tests.unit.services.extender.extender_objects import ScoreAgent, names_body, profile, scores_in, view
from tests.unit.services.extender.http.client import Client

HEAD = b"POST /scheduler/prioritize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
BODY = names_body(["a", "b"])
REQUEST = HEAD % len(BODY) + BODY
ANSWER = {"a": 1, "b": 6}


class Running:
    """A server in a thread."""

    def __init__(self, context: ssl.SSLContext | None = None, *, head_s: float = 10.0, **limits: float) -> None:
        client = Client(profile(ScoreAgent()), **limits)
        client.engine.on_view(view({"a": 1.0, "b": 6.0}))
        self.app = client.app
        self.main = Listener(Address("127.0.0.1", 0), client.app, head_s=head_s)
        status = Client(profile(ScoreAgent()), scheduler=False)
        self.status = Listener(Address("127.0.0.1", 0), status.app)
        self.signal = ShutdownSignal()
        self.server = HttpServer(self.main, context, self.status, self.signal)
        self._started, self._in_loop, self._loop = threading.Event(), threading.Event(), asyncio.AbstractEventLoop()
        self.thread = threading.Thread(target=lambda: self.server.run(self._background, self._started.set), daemon=True)
        self.thread.start()
        assert self._started.wait(10) and self._in_loop.wait(10)

    async def _background(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._in_loop.set()
        await asyncio.Event().wait()

    def in_loop(self, call: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await call()

        future: concurrent.futures.Future[None] = asyncio.run_coroutine_threadsafe(run(), self._loop)
        future.result(10)

    def connect(self, context: ssl.SSLContext | None = None, *, status: bool = False) -> socket.socket:
        address = (self.status if status else self.main).address
        raw = socket.create_connection((address.host, address.port), timeout=10)
        return context.wrap_socket(raw, server_hostname="localhost") if context is not None else raw


@contextlib.contextmanager
def running(context: ssl.SSLContext | None = None, **limits: float) -> Iterator[Running]:
    server = Running(context, **limits)
    try:
        yield server
    finally:
        server.signal.request_stop()
        server.thread.join(15)
        assert not server.thread.is_alive()


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head and the body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, "the server has closed the connection"
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


def ask(connection: socket.socket, request: bytes = REQUEST) -> dict[str, int]:
    connection.sendall(request)
    head, body = receive(connection)
    assert head.startswith(b"HTTP/1.1 200")
    return scores_in(body)


def test_one_connection_has_many_requests_and_answers_have_only_two_headers() -> None:
    with running() as server, server.connect() as connection:
        assert [ask(connection) for _ in range(3)] == [ANSWER] * 3
        connection.sendall(REQUEST)
        head, body = receive(connection)
        names = [line.split(b":")[0] for line in head.split(b"\r\n")[1:]]
        assert names == [b"content-type", b"content-length"] and scores_in(body) == ANSWER


def test_a_body_that_is_too_large_and_a_request_that_is_none_do_not_stop_the_next() -> None:
    with running(max_body_bytes=1_000_000) as server:
        with server.connect() as connection:
            connection.sendall(HEAD % 10_000_000)
            head, _body = receive(connection)
            assert head.startswith(b"HTTP/1.1 413")
        with server.connect() as connection:
            connection.sendall(HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked"))
            with contextlib.suppress(OSError):
                for _ in range(40):
                    connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            assert receive(connection)[0].startswith(b"HTTP/1.1 413")
        for nonsense in (b"\x00\xff\r\n\r\n", b"GET \xff\xfe HTTP/1.1\r\n\r\n", b"POST /scheduler/filter\r\n\r\n"):
            with server.connect() as connection:
                connection.sendall(nonsense)
                assert connection.recv(100).startswith((b"HTTP/1.1 4", b""))
        with server.connect() as connection:
            assert ask(connection) == ANSWER


def test_a_request_in_flight_is_answered_before_the_end() -> None:
    with running() as server, server.connect() as busy, server.connect() as idle:
        assert ask(idle) == ANSWER
        busy.sendall(REQUEST[:-20])
        server.signal.request_stop()
        assert idle.recv(1) == b"", "a connection without a request is closed"
        busy.sendall(REQUEST[-20:])
        assert scores_in(receive(busy)[1]) == ANSWER
        assert busy.recv(1) == b""


def test_a_second_signal_ends_the_wait_for_a_request() -> None:
    with running() as server, server.connect() as busy:
        busy.sendall(REQUEST[:-20])
        server.signal.request_stop()
        server.signal.request_stop()
        server.thread.join(5)
        assert not server.thread.is_alive()


# --- limits of connections ---


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("limit", ["MAX_OF_ADDRESS", "MAX_CONNECTIONS"])
def test_a_new_connection_replaces_the_one_that_was_idle_for_the_longest_time(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(connections, limit, 3)
    with running() as server, contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(server.connect()) for _ in range(3))
        assert [ask(one) for one in (second, third, first)] == [ANSWER] * 3
        second.sendall(REQUEST[:-20])
        assert ask(first) == ANSWER, "the server has read what came before"
        fourth = stack.enter_context(server.connect())
        assert ask(fourth) == ANSWER and is_closed(third)
        second.sendall(REQUEST[-20:])
        assert scores_in(receive(second)[1]) == ANSWER, "a request is not interrupted while another connection is idle"
        assert ask(first) == ANSWER


@dataclass(eq=False)
class Connected:
    """A connection, of which only what the limits read exists."""

    address: str
    precedence: int
    active_at_s: float
    dropped: bool = False

    def drop(self) -> None:
        self.dropped = True


def test_handshakes_from_many_addresses_displace_no_complete_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    scheduler = [Connected("10.0.0.1", 1, number) for number in range(3)]
    open_ones: set[Connected] = set(scheduler)
    for number in range(20):
        handshake = Connected(f"10.0.1.{number}", 0, 100.0 + number)
        open_ones.add(handshake)
        replace_another(handshake, open_ones)
    assert open_ones.issuperset(scheduler) and not any(one.dropped for one in scheduler) and len(open_ones) == 8


def test_a_header_that_is_not_complete_in_time_ends_the_connection() -> None:
    with running(head_s=0.2) as server, server.connect() as slow, server.connect() as usual:
        assert ask(usual) == ANSWER
        slow.sendall(b"POST /scheduler/filter HTTP/1.1\r\nX: ")
        assert is_closed(slow)
        assert ask(usual) == ANSWER
        usual.sendall(b"POST /")
        assert is_closed(usual)


def test_a_header_that_begins_behind_another_request_has_the_same_time_limit() -> None:
    with running(head_s=0.2) as server, server.connect() as connection:
        assert ask(connection, REQUEST + REQUEST[:20]) == ANSWER
        assert is_closed(connection)
    with running() as server, server.connect() as connection:
        for begin in (REQUEST[:20], b"\r\n", REQUEST[:-1]):
            assert ask(connection, REQUEST + begin) == ANSWER
            assert ask(connection, REQUEST.removeprefix(begin)) == ANSWER


LONG = b"x" * connections.MAX_HEAD_BYTES


@pytest.mark.parametrize(
    "head",
    [b"GET /healthz HTTP/1.1\r\nX: " + LONG, b"GET /healthz HTTP/1.1\r\nX: " + LONG + b"\r\n\r\n", b"GET /" + LONG + b" HTTP/1.1\r\n\r\n"],
    ids=["incomplete", "header", "URL"],
)
def test_a_header_that_is_too_large_is_refused(head: bytes) -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(head)
        assert receive(connection)[0].startswith(b"HTTP/1.1 431 ")


def test_a_large_body_does_not_count_as_the_header_of_the_next_request() -> None:
    body = names_body([f"node-{number:05}" for number in range(18_000)])
    with running() as server, server.connect() as connection:
        for _ in range(2):
            connection.sendall(HEAD % len(body) + body)
            assert receive(connection)[0].startswith(b"HTTP/1.1 200")
            assert ask(connection) == ANSWER
        connection.sendall(REQUEST + REQUEST)
        assert len(receive(connection)[1]) > 0


# --- TLS ---


class Certificates:
    """The files of a server with an authority for its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.server_ca, self.client_ca = folder, trustme.CA(), trustme.CA()
        self.files = TlsFiles(*(str(folder / name) for name in ("server.crt", "server.key", "client-ca.crt")))
        self.write_pair(self.server_ca)
        self.client_ca.cert_pem.write_to_path(self.files.client_ca_file)

    def write_pair(self, authority: trustme.CA) -> None:
        pair = authority.issue_cert("localhost")
        pair.cert_chain_pems[0].write_to_path(self.files.cert_file)
        pair.private_key_pem.write_to_path(self.files.key_file)

    def client(self, client_ca: trustme.CA | None, server_ca: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        (server_ca or self.server_ca).configure_trust(context)
        if client_ca is not None:
            client_ca.issue_cert("scheduler").configure_cert(context)
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def is_admitted(server: Running, context: ssl.SSLContext) -> bool:
    try:
        with server.connect(context) as connection:
            return ask(connection) == ANSWER
    except (OSError, AssertionError):
        return False


def test_only_clients_with_a_certificate_of_the_authority_are_admitted(certificates: Certificates) -> None:
    with running(make_context(certificates.files)) as server:
        assert is_admitted(server, certificates.client(certificates.client_ca))
        assert not is_admitted(server, certificates.client(None))
        assert not is_admitted(server, certificates.client(trustme.CA()))
        with pytest.raises(ssl.SSLCertVerificationError):
            server.connect(certificates.client(certificates.client_ca, trustme.CA()))
        with server.connect(status=True) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert receive(connection)[1] == b"ok\n"


def test_a_handshake_that_is_not_complete_in_time_ends_the_connection(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.2)
    with running(make_context(certificates.files)) as server, server.connect() as silent, server.connect() as other:
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(silent)
        while other.recv(100):  # the alert of TLS
            pass
        assert is_admitted(server, certificates.client(certificates.client_ca))


def test_unfinished_handshakes_are_replaced_before_all_other_connections(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_OF_ADDRESS", 3)
    client = certificates.client(certificates.client_ca)
    with running(make_context(certificates.files)) as server, server.connect(client) as idle, contextlib.ExitStack() as stack:
        assert ask(idle) == ANSWER
        unfinished = [stack.enter_context(server.connect()) for _ in range(3)]
        assert is_closed(unfinished[0])
        with server.connect(client) as another:
            assert ask(another) == ANSWER and ask(idle) == ANSWER
            assert is_closed(unfinished[1])


@pytest.mark.parametrize("limit", ["MAX_OF_ADDRESS", "MAX_CONNECTIONS"])
def test_a_new_tls_connection_replaces_an_idle_one_and_not_its_own_handshake(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(connections, limit, 3)
    client = certificates.client(certificates.client_ca)
    with running(make_context(certificates.files)) as server, contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(server.connect(client)) for _ in range(2)]
        assert [ask(one) for one in open_ones] == [ANSWER] * 2
        for _ in range(3):
            open_ones.append(stack.enter_context(server.connect(client)))
            assert ask(open_ones[-1]) == ANSWER
        assert is_closed(open_ones[0]) and ask(open_ones[-2]) == ANSWER


def test_a_new_authority_ends_the_handshakes_that_have_begun(certificates: Certificates) -> None:
    watch = TlsWatch(certificates.files)
    with running(make_context(certificates.files)) as server, server.connect() as unfinished:
        assert is_admitted(server, certificates.client(certificates.client_ca))
        trustme.CA().cert_pem.write_to_path(certificates.files.client_ca_file)
        assert renewed(server, watch) == (False, True)
        assert is_closed(unfinished)


def renewed(server: Running, watch: TlsWatch) -> tuple[bool, bool] | None:
    """Renew, and return whether the pair and the authority have changed."""
    found: list[TlsChange | None] = []

    async def call() -> None:
        found.append(await renew(watch, server.server))

    server.in_loop(call)
    return None if found[0] is None else (found[0].pair, found[0].authority)


def test_a_changed_certificate_is_used_for_new_connections_and_open_ones_continue(certificates: Certificates) -> None:
    watch = TlsWatch(certificates.files)
    with (
        running(make_context(certificates.files)) as server,
        server.connect(certificates.client(certificates.client_ca)) as open_connection,
    ):
        assert renewed(server, watch) is None
        assert ask(open_connection) == ANSWER
        other = trustme.CA()
        certificates.write_pair(other)
        assert renewed(server, watch) == (True, False)
        assert is_admitted(server, certificates.client(certificates.client_ca, other))
        assert ask(open_connection) == ANSWER
        assert renewed(server, watch) is None


def test_a_changed_authority_ends_the_connections_that_the_old_one_admitted(certificates: Certificates) -> None:
    old_client, watch = certificates.client(certificates.client_ca), TlsWatch(certificates.files)
    with running(make_context(certificates.files)) as server, server.connect(old_client) as open_connection:
        assert ask(open_connection) == ANSWER
        new_ca = trustme.CA()
        new_ca.cert_pem.write_to_path(certificates.files.client_ca_file)
        assert renewed(server, watch) == (False, True)
        assert not is_admitted(server, old_client)
        assert is_admitted(server, certificates.client(new_ca))
        with contextlib.suppress(OSError):
            assert open_connection.recv(1) == b""


def test_a_certificate_whose_key_is_not_there_yet_changes_nothing_and_loses_no_new_authority(certificates: Certificates) -> None:
    old_client, watch = certificates.client(certificates.client_ca), TlsWatch(certificates.files)
    with running(make_context(certificates.files)) as server:
        other, new_client_ca = trustme.CA(), trustme.CA()
        pair = other.issue_cert("localhost")
        pair.cert_chain_pems[0].write_to_path(certificates.files.cert_file)
        new_client_ca.cert_pem.write_to_path(certificates.files.client_ca_file)
        for _ in range(2):
            with pytest.raises(OSError, match="no PEM certificate with its key"):
                renewed(server, watch)
            assert is_admitted(server, old_client)
        pair.private_key_pem.write_to_path(certificates.files.key_file)
        assert renewed(server, watch) == (True, True)
        assert is_admitted(server, certificates.client(new_client_ca, other))
        assert not is_admitted(server, certificates.client(certificates.client_ca, other))


def test_a_certificate_that_cannot_be_read_is_an_error(certificates: Certificates) -> None:
    Path(certificates.files.key_file).write_text("no key")
    with pytest.raises(OSError):
        make_context(certificates.files)
    Path(certificates.files.cert_file).unlink()
    with pytest.raises(OSError):
        TlsWatch(certificates.files)
