# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server with TLS: who is admitted, handshakes that do not end, and the renewal of certificates."""

from __future__ import annotations

import contextlib
import gc
import ssl
import time
from pathlib import Path

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.services.common.http import connection, handshake, limits
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls import TlsFiles, TlsWatch, make_context

from tests.unit.services.extender.http.running_server import ANSWER, Running, ask, is_closed, receive, running


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


def test_pages_and_requests_take_turns_on_one_connection(certificates: Certificates) -> None:
    with running(make_context(certificates.files)) as server, server.connect(certificates.client(certificates.client_ca)) as connection:
        for _ in range(3):
            connection.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
            assert receive(connection)[1].startswith(b'{"cluster"')
            assert ask(connection) == ANSWER


def test_a_handshake_that_is_not_complete_in_time_ends_the_connection(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)
    with running(make_context(certificates.files)) as server, server.connect() as silent, server.connect() as other:
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(silent)
        while other.recv(100):  # the alert of TLS
            pass
        assert is_admitted(server, certificates.client(certificates.client_ca))


def test_unfinished_handshakes_are_replaced_before_all_other_connections(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_OF_ADDRESS", 3)
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
    monkeypatch.setattr(limits, limit, 3)
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
    change = watch.change()
    if change is None:
        return None

    async def call() -> None:
        server.main.replace_context(change.context, end_connections=change.authority)

    server.in_loop(call)
    return change.pair, change.authority


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


def test_handshakes_that_are_not_complete_do_not_delay_the_end(certificates: Certificates) -> None:
    with running(make_context(certificates.files)) as server, server.connect() as silent, server.connect() as begun:
        begun.sendall(b"\x16\x03\x01")
        while len(server.main._limits.connections) < 2:
            time.sleep(0.01)
        server.signal.request_stop()
        server.thread.join(3)
        assert not server.thread.is_alive()
        assert is_closed(silent) and is_closed(begun)


def test_a_connection_that_is_dropped_before_the_end_of_its_handshake_is_freed(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refresh excludes the objects of that moment from garbage collections, so that no cycles may be left."""

    def known() -> int:
        return sum(type(one) in (connection.Connection, handshake.Handshake) for one in gc.get_objects())

    monkeypatch.setattr(limits, "MAX_OF_ADDRESS", 3)
    with running(make_context(certificates.files)) as server, contextlib.ExitStack() as stack:
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        before = known()
        for _ in range(30):
            stack.enter_context(server.connect()).sendall(b"\x16\x03\x01")
        until_s = time.monotonic() + 5
        while known() > before + 3 and time.monotonic() < until_s:
            time.sleep(0.01)
        assert known() <= before + 3
