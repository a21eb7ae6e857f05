# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender with TLS: the real kube-scheduler checks its certificate, and it checks the certificates of its clients."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from lab.cluster import Cluster
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender, pod_of
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

PROFILE = "tls"


class Certificates:
    """The files of a server, of a client, and of their authorities. ``other`` is an authority that has signed nothing."""

    def __init__(self, folder: Path) -> None:
        self._authority, self.other = trustme.CA(), trustme.CA()
        self._folder = folder
        self.authority_file = self._write("ca.pem", self._authority.cert_pem)
        self.other_file = self._write("other.pem", self.other.cert_pem)
        server, client = self._authority.issue_cert("127.0.0.1"), self._authority.issue_cert("scheduler@example.com")
        self.server = {
            "cert_file": self._write("server.pem", server.cert_chain_pems[0]),
            "key_file": self._write("server.key", server.private_key_pem),
        }
        self.client = {
            "certFile": self._write("client.pem", client.cert_chain_pems[0]),
            "keyFile": self._write("client.key", client.private_key_pem),
        }

    def _write(self, name: str, blob: trustme.Blob) -> str:
        path = self._folder / name
        blob.write_to_path(str(path))
        return str(path)

    def context(self, *, with_client: bool) -> ssl.SSLContext:
        """Return the context of a client that trusts the server."""
        context = ssl.create_default_context(cafile=self.authority_file)
        if with_client:
            context.load_cert_chain(self.client["certFile"], self.client["keyFile"])
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, certificates: Certificates) -> Extender:
    """An extender that admits only clients with a certificate."""
    tls = {**certificates.server, "client_ca_file": certificates.authority_file}
    return start_extender({"profiles": {PROFILE: {"agents": [{"name": "template"}]}}, "server": {"tls": tls}})


def test_the_scheduler_with_the_right_authority_uses_it(
    extender: Extender, certificates: Certificates, start_scheduler: StartScheduler, pods: WaitingPods
) -> None:
    start_with(start_scheduler, extender, PROFILE, {"caFile": certificates.authority_file, **certificates.client})
    answered = extender.metric("requests_total", verb="filter")
    assert pods.bind(1, PROFILE) != [""]
    assert extender.metric("requests_total", verb="filter") > answered


@pytest.mark.parametrize("wrong", ["authority of the server", "no client certificate"])
def test_a_scheduler_with_the_wrong_certificates_binds_nothing(
    lab_cluster: Cluster, extender: Extender, certificates: Certificates, start_scheduler: StartScheduler, pods: WaitingPods, wrong: str
) -> None:
    """Its extender is not ignorable, so that its pods wait, and their conditions say why.

    A server of asyncio closes the connection of a client without certificate before its TLS alert is sent, so that the client sees EOF.
    """
    if wrong == "no client certificate":
        tls = {"caFile": certificates.authority_file}
    else:
        tls = {"caFile": certificates.other_file, **certificates.client}
    name = f"tls-{wrong.replace(' ', '-')}"
    start_with(start_scheduler, extender, name, tls)
    pod = pods.create(name)

    def message() -> str:
        conditions = pods.get(pod)["status"].get("conditions") or [{}]
        text: str = conditions[0].get("message", "")
        return text

    reasons = ("certificate",) if wrong == "authority of the server" else ("certificate", "EOF", "reset by peer")
    wait_until(lambda: any(reason in message() for reason in reasons), what="an error about the connection")
    assert not pods.node_of(pod)


def test_people_need_no_certificate(extender: Extender, certificates: Certificates) -> None:
    assert extender.get("/healthz")[0] == 200
    body = {"Pod": pod_of(PROFILE), "NodeNames": ["a"]}
    assert extender.post("prioritize", body, context=certificates.context(with_client=True))[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        extender.post("prioritize", body, context=certificates.context(with_client=False))


def start_with(start_scheduler: StartScheduler, extender: Extender, profile: str, tls: dict[str, Any]) -> None:
    """Start a scheduler whose extender is required and has these certificates."""
    start_scheduler(extender, profiles=(profile,), filterVerb="filter", enableHTTPS=True, tlsConfig=tls, ignorable=False)
