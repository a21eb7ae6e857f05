# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens and certificates that are renewed on the disk are used, over real TLS, without a loop of refused requests."""

from __future__ import annotations

import base64
import ssl
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_settings import settings_of_kubeconfig
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_source import Source
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import RequestTarget, TLSError, UnauthorizedError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import RELOAD_EVERY_S, Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Transport

from tests.unit.support.clock import SetClock


class Server:
    """An API server that accepts some tokens, and some names of client certificates. ``seen`` has the method and status of each request."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.accepted: set[str] = set()
        self.seen: list[tuple[str, int]] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.authority.configure_trust(self.context)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.socket = self.context.wrap_socket(self._http.socket, server_side=True)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = 200 if self._names() & server.accepted else 401
                server.seen.append((self.command, status))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_PATCH = do_GET

            def _names(self) -> set[str]:
                certificate = t.cast(ssl.SSLSocket, self.connection).getpeercert() or {}
                names = [value for _kind, value in certificate.get("subjectAltName", ())]
                return {self.headers.get("Authorization", "").removeprefix("Bearer "), *names}

            def log_message(self, *_arguments: t.Any) -> None:
                pass

        return Handler

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


class Client:
    """A transport with a kubeconfig that can be written again, and the clock that its renewals go by."""

    def __init__(self, server: Server, file: Path, **user: str) -> None:
        self.server, self.file, self.clock = server, file, SetClock()
        self.write(**user)
        self.transport = Transport(Connection(lambda: settings_of_kubeconfig(Source(str(file))), clock=self.clock), user_agent="test")

    def write(self, *, authority: trustme.CA | None = None, **user: str) -> None:
        ca = (authority or self.server.authority).cert_pem.bytes()
        cluster = {"server": self.server.url, "certificate-authority-data": base64.b64encode(ca).decode()}
        self.file.write_text(
            yaml.safe_dump({
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "me", "user": user}],
            })
        )  # fmt: skip

    def ask(self, method: str = "get", body: t.Any = None) -> None:
        self.transport.request(method, "/version", verb="get", target=RequestTarget("it"), body=body).unpack()


def certificate_of(authority: trustme.CA, name: str) -> dict[str, str]:
    issued = authority.issue_cert(name)
    pems = {"client-certificate-data": issued.cert_chain_pems[0].bytes(), "client-key-data": issued.private_key_pem.bytes()}
    return {key: base64.b64encode(pem).decode() for key, pem in pems.items()}


def test_a_renewed_token_is_used_after_a_refusal(server: Server, tmp_path: Path) -> None:
    server.accepted = {"one"}
    client = Client(server, tmp_path / "config", token="one")
    client.ask()
    server.accepted = {"two"}
    client.write(token="two")
    client.clock.now_s += RELOAD_EVERY_S
    client.ask("patch", body={"a": 1})
    client.ask()
    assert server.seen == [("GET", 200), ("PATCH", 401), ("PATCH", 200), ("GET", 200)]


def test_a_renewed_client_certificate_is_used_after_a_refusal(server: Server, tmp_path: Path) -> None:
    server.accepted = {"one.example.org"}
    client = Client(server, tmp_path / "config", **certificate_of(server.authority, "one.example.org"))
    client.ask()
    server.accepted = {"two.example.org"}
    client.write(**certificate_of(server.authority, "two.example.org"))
    client.clock.now_s += RELOAD_EVERY_S
    client.ask()
    assert server.seen == [("GET", 200), ("GET", 401), ("GET", 200)]


def test_client_certificate_files_that_are_renewed_at_the_same_place_are_used_after_a_refusal(server: Server, tmp_path: Path) -> None:
    def write_pair(name: str) -> None:
        issued = server.authority.issue_cert(name)
        issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))

    write_pair("one.example.org")
    server.accepted = {"one.example.org"}
    client = Client(server, tmp_path / "config", **{"client-certificate": "cert.pem", "client-key": "key.pem"})
    client.ask()
    write_pair("two.example.org")
    server.accepted = {"two.example.org"}
    client.clock.now_s += RELOAD_EVERY_S
    client.ask()


def test_credentials_that_stay_refused_are_read_again_once_in_some_seconds(server: Server, tmp_path: Path) -> None:
    client = Client(server, tmp_path / "config", token="wrong")
    client.clock.now_s += RELOAD_EVERY_S
    for _ in range(3):
        with pytest.raises(UnauthorizedError):
            client.ask()
    assert server.seen == [("GET", 401)] * 4  # the first one twice
    client.clock.now_s += RELOAD_EVERY_S
    with pytest.raises(UnauthorizedError):
        client.ask()
    assert server.seen == [("GET", 401)] * 6


def test_a_kubeconfig_that_is_being_written_keeps_the_credentials_that_were_read(server: Server, tmp_path: Path) -> None:
    server.accepted = {"one"}
    client = Client(server, tmp_path / "config", token="one")
    client.file.write_text("users: [")
    server.accepted = set()
    client.clock.now_s += RELOAD_EVERY_S
    with pytest.raises(UnauthorizedError):
        client.ask()
    server.accepted = {"one"}
    client.ask()


def test_a_renewed_certificate_authority_is_used_after_tls_has_failed(server: Server, tmp_path: Path) -> None:
    server.accepted = {"one"}
    client = Client(server, tmp_path / "config", authority=trustme.CA(), token="one")
    with pytest.raises(TLSError):
        client.ask()
    client.write(token="one")
    client.clock.now_s += RELOAD_EVERY_S
    client.ask()


def test_many_threads_that_are_refused_at_the_same_time_read_the_kubeconfig_once(server: Server, tmp_path: Path) -> None:
    server.accepted = {"one"}
    loads: list[int] = []
    client = Client(server, tmp_path / "config", token="one")

    def load() -> t.Any:
        loads.append(1)
        return settings_of_kubeconfig(Source(str(client.file)))

    client.transport = Transport(Connection(load, clock=client.clock), user_agent="test")
    client.write(token="two")
    server.accepted = {"two"}
    client.clock.now_s += RELOAD_EVERY_S
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            client.ask()
        except UnauthorizedError as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and len(loads) == 2
