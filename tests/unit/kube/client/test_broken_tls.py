# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Only a failed TLS handshake proves that a request was not carried out. The servers are real and break TLS at different moments."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import urllib3
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    KubeError,
    RequestTarget,
    TLSError,
    TruncatedResponseError,
    UnreachableError,
    answer_was_lost,
    may_have_succeeded,
    was_not_applied,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import RELOAD_EVERY_S, Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.tls import tls_context
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import DEPLOYMENTS, NODES

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
NODE_LIST = b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
LONG_AGO_S = 1000.0


class Peer:
    """One connection to a server. TLS is made in memory, so that anything can be written to the socket."""

    def __init__(self, connection: socket.socket | Peer, context: ssl.SSLContext) -> None:
        self.socket = connection
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)

    def _run(self, step: t.Callable[[], t.Any]) -> t.Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self.socket.recv(65536)
                if not data:
                    raise ConnectionError from None
                self._received.write(data)
            finally:
                self._flush()

    def _flush(self) -> None:
        self.socket.sendall(self._to_send.read())

    def handshake(self) -> None:
        self._run(self._tls.do_handshake)

    def request(self) -> str:
        """Read one request and return its method."""
        read = b""
        while b"\r\n\r\n" not in read:
            read += self._run(lambda: self._tls.read(65536))
        return read.split(b" ")[0].decode()

    def answer(self, data: bytes) -> None:
        self._run(lambda: self._tls.write(data))

    def recv(self, size: int) -> bytes:
        """Read what the client has sent within TLS, as from a socket."""
        return t.cast(bytes, self._run(lambda: self._tls.read(size)))

    def sendall(self, data: bytes) -> None:
        if data:
            self.answer(data)

    def garbage(self) -> None:
        """Send a record that no key of the connection has encrypted."""
        self.socket.sendall(b"\x17\x03\x03\x00\x40" + os.urandom(64))

    def plain_text(self) -> None:
        self.socket.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")


class Server:
    """A TLS server whose connections are served by ``serve``. ``requests`` are the methods of the requests that it has read."""

    def __init__(self, serve: t.Callable[[Peer, int], None]) -> None:
        self.authority = trustme.CA()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.requests: list[str] = []
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    self._serve(Peer(connection, self.context), number)
                number += 1

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def serving(serve: t.Callable[[Peer, int, Server], None]) -> Iterator[Server]:
    server = Server(lambda peer, number: serve(peer, number, server))
    try:
        yield server
    finally:
        server.close()


def transport_to(server: Server, **settings: t.Any) -> Transport:
    """A transport whose settings may be read again for each request."""
    chosen = ConnectionSettings(server.url, **{"ca": server.authority.cert_pem.bytes(), **settings})
    times = iter(range(0, 10**6, int(RELOAD_EVERY_S) + 1))
    return Transport(Connection(lambda: chosen, clock=lambda: float(next(times))), user_agent="test")


def api_of(server: Server, **settings: t.Any) -> KubeApi:
    return KubeApi(transport_to(server, **settings), retry_for_s=5, sleep=lambda _seconds: None)


def read_and(break_: t.Callable[[Peer], None]) -> t.Callable[[Peer, int, Server], None]:
    def serve(peer: Peer, _number: int, server: Server) -> None:
        peer.handshake()
        server.requests.append(peer.request())
        break_(peer)

    return serve


def begin_answer(peer: Peer) -> None:
    peer.answer(HEAD % 100 + b"{")
    peer.garbage()


BREAKS = [
    pytest.param(Peer.garbage, id="with a record of another key"),
    pytest.param(Peer.plain_text, id="with text that is not TLS"),
    pytest.param(lambda _peer: None, id="by closing the connection"),
    pytest.param(begin_answer, id="in the middle of the answer"),
]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("break_", BREAKS)
def test_an_eviction_that_the_server_has_read_is_not_sent_again_and_may_have_been_made(
    break_: t.Callable[[Peer], None], version: ssl.TLSVersion
) -> None:
    with serving(read_and(break_)) as server:
        server.context.maximum_version = version
        with pytest.raises(UnreachableError) as caught:
            api_of(server).evict("app", "web", uid="u")
    assert server.requests == ["POST"]
    assert not was_not_applied(caught.value) and may_have_succeeded(caught.value) and answer_was_lost(caught.value)


@pytest.mark.parametrize("break_", BREAKS)
def test_a_list_is_repeated_after_tls_broke(break_: t.Callable[[Peer], None]) -> None:
    def serve(peer: Peer, number: int, server: Server) -> None:
        if number == 0:
            return read_and(break_)(peer, number, server)
        peer.handshake()
        server.requests.append(peer.request())
        return peer.answer(HEAD % len(NODE_LIST) + NODE_LIST)

    with serving(serve) as server:
        assert api_of(server).list_all(NODES) == []
    assert server.requests == ["GET", "GET"]


def test_a_patch_whose_tls_broke_says_that_an_earlier_try_may_have_been_applied() -> None:
    def serve(peer: Peer, number: int, server: Server) -> None:
        peer.handshake()
        server.requests.append(peer.request())
        if number == 0:
            peer.garbage()
        else:
            peer.answer(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with serving(serve) as server, pytest.raises(KubeError) as caught:
        api_of(server).merge_patch(DEPLOYMENTS, "app", "web", {"metadata": {"resourceVersion": "1"}})
    assert server.requests == ["PATCH", "PATCH"] and not was_not_applied(caught.value)


def test_a_connection_that_has_answered_before_does_not_prove_anything_by_its_end() -> None:
    def serve(peer: Peer, _number: int, server: Server) -> None:
        peer.handshake()
        server.requests.append(peer.request())
        peer.answer(HEAD % 2 + b"{}")
        server.requests.append(peer.request())

    with serving(serve) as server:
        api = api_of(server)
        api.get_bytes(NODES, "", "n")
        with pytest.raises(UnreachableError) as caught:
            api.evict("app", "web", uid="u")
    assert server.requests == ["GET", "POST"] and not was_not_applied(caught.value)


@pytest.mark.parametrize("status", [b"103 Early Hints", b"102 Processing", b"101 Switching Protocols"])
def test_an_interim_answer_is_not_the_answer_to_a_write(status: bytes) -> None:
    def serve(peer: Peer, _number: int, server: Server) -> None:
        peer.handshake()
        server.requests.append(peer.request())
        peer.answer(b"HTTP/1.1 %s\r\n\r\n" % status)
        with contextlib.suppress(OSError):
            peer.answer(HEAD % 2 + b"{}")
            server.requests.append(peer.request())

    with serving(serve) as server:
        api = api_of(server)
        for _ in range(2):
            with pytest.raises(TruncatedResponseError) as caught:
                api.evict("app", "web", uid="u")
            assert not was_not_applied(caught.value)
    assert server.requests == ["POST", "POST"], "each on its own connection"


def test_a_redirection_is_not_followed_and_does_not_prove_that_nothing_was_done() -> None:
    def serve(peer: Peer, _number: int, server: Server) -> None:
        peer.handshake()
        server.requests.append(peer.request())
        peer.answer(b"HTTP/1.1 303 See Other\r\nLocation: /done\r\nContent-Length: 0\r\n\r\n")

    with serving(serve) as server, pytest.raises(KubeError) as caught:
        api_of(server).evict("app", "web", uid="u")
    assert server.requests == ["POST"] and not was_not_applied(caught.value)


# --- proofs ---


def no_request(peer: Peer, _number: int, server: Server) -> None:
    with contextlib.suppress(ssl.SSLError):
        peer.handshake()
        server.requests.append(peer.request())


def test_a_server_that_is_not_trusted_has_done_nothing() -> None:
    with serving(no_request) as server, pytest.raises(TLSError) as caught:
        api_of(server, ca=trustme.CA().cert_pem.bytes()).evict("app", "web", uid="u")
    assert server.requests == [] and was_not_applied(caught.value) and not answer_was_lost(caught.value)


def test_a_server_with_another_name_has_done_nothing() -> None:
    with serving(no_request) as server, pytest.raises(TLSError, match=r"example\.org") as caught:
        api_of(server, tls_server_name="example.org").evict("app", "web", uid="u")
    assert server.requests == [] and was_not_applied(caught.value)


def test_a_server_that_does_not_speak_tls_has_done_nothing() -> None:
    with serving(lambda peer, _number, _server: peer.plain_text()) as server, pytest.raises(TLSError) as caught:
        api_of(server).evict("app", "web", uid="u")
    assert was_not_applied(caught.value)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("own", [False, True], ids=["no certificate", "a certificate of another authority"])
def test_a_server_that_rejects_the_client_certificate_has_done_nothing(own: bool, version: ssl.TLSVersion) -> None:
    issued = trustme.CA().issue_cert("me.example.org")
    login = {"client_certificate": issued.cert_chain_pems[0].bytes(), "client_key": issued.private_key_pem.bytes()} if own else {}
    with serving(no_request) as server:
        server.context.maximum_version = version
        server.context.verify_mode = ssl.CERT_REQUIRED
        server.authority.configure_trust(server.context)
        with pytest.raises(TLSError) as caught:
            api_of(server, **login).evict("app", "web", uid="u")
    assert server.requests == [] and was_not_applied(caught.value)


def test_a_write_is_sent_with_a_renewed_client_certificate_after_the_server_has_rejected_the_old_one(tmp_path: Path) -> None:
    def serve(peer: Peer, _number: int, server: Server) -> None:
        with contextlib.suppress(ssl.SSLError):
            peer.handshake()
            server.requests.append(peer.request())
            peer.answer(HEAD % 2 + b"{}")

    with serving(serve) as server:
        server.context.verify_mode = ssl.CERT_REQUIRED
        server.authority.configure_trust(server.context)

        def settings(authority: trustme.CA) -> ConnectionSettings:
            issued = authority.issue_cert("me.example.org")
            pems = {"client_certificate": issued.cert_chain_pems[0].bytes(), "client_key": issued.private_key_pem.bytes()}
            return ConnectionSettings(server.url, ca=server.authority.cert_pem.bytes(), **pems)

        loads = iter([settings(trustme.CA()), settings(server.authority)])
        times = iter([0.0, LONG_AGO_S, LONG_AGO_S])
        transport = Transport(Connection(lambda: next(loads), clock=lambda: next(times)), user_agent="test")
        transport.request("patch", "/x", verb="patch", target=RequestTarget("it"), body={})
    assert server.requests == ["PATCH"]


@pytest.mark.parametrize("verify", [True, False])
def test_the_context_is_as_strict_as_the_one_of_urllib3(verify: bool) -> None:
    own = tls_context(ConnectionSettings("https://127.0.0.1", verify=verify))
    theirs = urllib3.util.ssl_.create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if verify else ssl.CERT_NONE)
    for name in ("minimum_version", "verify_mode", "check_hostname", "hostname_checks_common_name", "post_handshake_auth"):
        assert getattr(own, name) == getattr(theirs, name), name
    assert own.options & theirs.options == theirs.options and own.verify_flags & theirs.verify_flags == theirs.verify_flags


@pytest.mark.parametrize("trusted", [False, True], ids=["of the proxy", "of the server behind the proxy"])
def test_a_failed_handshake_with_or_behind_a_proxy_proves_that_nothing_was_done(
    trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is reached by TLS, so the connection to the server is TLS within TLS."""

    def proxy(peer: Peer, _number: int, server: Server) -> None:
        with contextlib.suppress(ssl.SSLError):
            peer.handshake()
            server.requests.append(peer.request())
            peer.answer(b"HTTP/1.1 200 OK\r\n\r\n")
            stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            trustme.CA().issue_cert("127.0.0.1").configure_cert(stranger)
            no_request(Peer(peer, stranger), 0, server)

    with serving(proxy) as server, pytest.raises(TLSError) as caught:
        if trusted:
            server.authority.cert_pem.write_to_path(str(tmp_path / "ca"))
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
        api_of(server, proxy=server.url).evict("app", "web", uid="u")
    assert set(server.requests) == ({"CONNECT"} if trusted else set()) and was_not_applied(caught.value)
