# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A server that ends the connection, sends nothing or has a wrong certificate causes the right error. The tests use a real socket."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import typing as t
from pathlib import Path

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import RequestTarget, TLSError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Transport

Answer = t.Callable[[socket.socket], None]


@contextlib.contextmanager
def server(answer: Answer) -> t.Iterator[int]:
    """Yield the port of a server that calls ``answer`` with each connection, and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _address = listener.accept()
                with contextlib.suppress(OSError), connection:
                    answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def transport_to(address: str, authority: str | None = None) -> Transport:
    settings = ConnectionSettings(address, ca=Path(authority) if authority else None)
    return Transport(Connection(lambda: settings), user_agent="test")


def read(address: str, authority: str | None = None, **bounds: float) -> bytes:
    return transport_to(address, authority).request("get", "/api", verb="get", target=RequestTarget("it"), **bounds)


def hear(connection: socket.socket) -> None:
    connection.recv(65536)


def promise_more(connection: socket.socket) -> None:
    hear(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        pytest.param("https", lambda _connection: None, id="immediately"),
        pytest.param("https", hear, id="in the handshake"),
        pytest.param("http", hear, id="without an answer"),
        pytest.param("http", promise_more, id="in the middle of the answer"),
    ],
)
def test_a_connection_that_breaks_off_may_be_tried_again(scheme: str, answer: Answer) -> None:
    with server(answer) as port, pytest.raises(UnreachableError) as caught:
        read(f"{scheme}://127.0.0.1:{port}")
    assert not isinstance(caught.value, TLSError)


def test_request_to_a_silent_server_times_out() -> None:
    over = threading.Event()

    def stay_silent(_connection: socket.socket) -> None:
        over.wait()

    with server(stay_silent) as port, pytest.raises(UnreachableError, match="timed out"):
        read(f"http://127.0.0.1:{port}", timeout_s=0.1)
    over.set()


def test_a_certificate_of_another_client_is_not_tried_again(tmp_path: t.Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    path = tmp_path / "ca"
    trustme.CA().cert_pem.write_to_path(str(path))
    with server(lambda connection: context.wrap_socket(connection, server_side=True).close()) as port, pytest.raises(TLSError):
        read(f"https://127.0.0.1:{port}", str(path))


@pytest.mark.parametrize("proxied", [False, True])
def test_the_system_asks_whether_a_silent_server_is_still_there(proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_options: list[tuple[int, ...]] = []

    class Noting(socket.socket):
        def setsockopt(self, *option: t.Any) -> None:
            set_options.append(option)
            super().setsockopt(*option)

    def answer(connection: socket.socket) -> None:
        hear(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with server(answer) as port:
        monkeypatch.setattr(socket, "socket", Noting)
        address = f"http://127.0.0.1:{port}"
        settings = ConnectionSettings(address, proxy=address if proxied else "")
        Transport(Connection(lambda: settings), user_agent="test").request("get", "/api", verb="get", target=RequestTarget("it"))
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in set_options
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in set_options
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            assert (socket.IPPROTO_TCP, getattr(socket, name), value) in set_options


def test_the_protocols_of_tls_are_set_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting them again frees the list that OpenSSL copies for the connection of another thread."""
    calls: list[t.Any] = []
    hellos: list[bytes] = []
    set_protocols = ssl.SSLContext.set_alpn_protocols

    def counted(context: ssl.SSLContext, protocols: t.Any) -> None:
        calls.append(protocols)
        set_protocols(context, protocols)

    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", counted)
    with server(lambda connection: hellos.append(connection.recv(65536))) as port:
        transport = transport_to(f"https://127.0.0.1:{port}")
        for _ in range(2):
            with pytest.raises(UnreachableError):
                transport.request("get", "/api", verb="get", target=RequestTarget("it"))
    assert len(calls) == 1 and len(hellos) == 2
    assert all(b"\x00\x09\x08http/1.1" in hello for hello in hellos)
