# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Prometheus over TLS: trust, the name of the server, a client certificate, and their errors."""

from __future__ import annotations

import ssl
import typing as t
from pathlib import Path

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import PrometheusSettings, TlsSettings

from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import Server

RECEIVED = Rate("received", 60)


class Authority:
    """A certificate authority with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.file))
        self.client = self.ca.issue_cert("client@example.org")
        self.cert_file, self.key_file = folder / "client.pem", folder / "client.key"
        self.client.cert_chain_pems[0].write_to_path(str(self.cert_file))
        self.client.private_key_pem.write_to_path(str(self.key_file))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serve_tls(server: Server, authority: Authority, *, name: str = "127.0.0.1", needs_client: bool = False) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.ca.issue_cert(name).configure_cert(context)
    if needs_client:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.ca.configure_trust(context)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.put("received", "1", 5, instance="a")


def problems(server: Server, **tls: t.Any) -> list[str]:
    texts: dict[str, t.Any] = {key: value if isinstance(value, bool) else str(value) for key, value in tls.items()}
    url = server.url.replace("http:", "https:")
    source = PrometheusSource(PrometheusSettings((url,), timeout_s=5.0, tls=TlsSettings(**texts)))
    readings = source.read([RECEIVED], nodes_of(NodeIdentity("a")))
    assert bool(readings.values.get(RECEIVED)) != bool(readings.problems)
    return readings.problems


def test_the_certificate_of_a_trusted_authority_is_accepted(server: Server, authority: Authority) -> None:
    serve_tls(server, authority)
    assert problems(server, ca_file=authority.file) == []


def test_a_certificate_of_another_authority_is_refused(server: Server, authority: Authority, tmp_path: Path) -> None:
    serve_tls(server, authority)
    other = tmp_path / "other"
    other.mkdir()
    (problem,) = problems(server, ca_file=Authority(other).file)
    assert "CERTIFICATE_VERIFY_FAILED" in problem and "; set tls.ca_file to " in problem
    assert problems(server, insecure_skip_verify=True) == []


def test_a_server_without_tls_is_named(server: Server) -> None:
    (problem,) = problems(server)
    assert "no TLS: try http:// " in problem


def test_the_name_in_the_certificate_can_be_given(server: Server, authority: Authority) -> None:
    serve_tls(server, authority, name="prometheus.example.org")
    assert problems(server, ca_file=authority.file)
    assert problems(server, ca_file=authority.file, server_name="prometheus.example.org") == []


def test_a_client_certificate_is_sent(server: Server, authority: Authority) -> None:
    serve_tls(server, authority, needs_client=True)
    assert problems(server, ca_file=authority.file)
    assert problems(server, ca_file=authority.file, cert_file=authority.cert_file, key_file=authority.key_file) == []


def test_a_file_that_is_missing_is_named(server: Server, tmp_path: Path) -> None:
    (problem,) = problems(server, ca_file=tmp_path / "missing.pem")
    assert str(tmp_path / "missing.pem") in problem
