# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""API servers that come back, a second one on the etcd of a cluster, and those whose clock differs."""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from lab import ports
from lab.cluster import Cluster
from lab.components import components
from lab.readiness import is_healthy
from tests.integration.workloads import wait_until

FORWARDED = ("Accept", "Authorization", "Content-Type", "User-Agent")
TIMEOUT_S = 60


def start_api_server(cluster: Cluster) -> None:
    """Start the API server again, and the components that have ended because they could not renew their Leases meanwhile."""
    cluster.start("kube-apiserver")
    for component in components(cluster.layout):
        if component.has_ended:
            cluster.start(component.name)


@contextlib.contextmanager
def second_api_server(cluster: Cluster) -> Iterator[str]:
    """Another kube-apiserver of the cluster, on the same etcd; gives its address. It ends with the block."""
    folder = cluster.folder / "second-api-server"
    folder.mkdir(exist_ok=True)
    (port,) = ports.reserve(folder, 1)
    (first,) = [component for component in components(cluster.layout) if component.name == "kube-apiserver"]
    own = {"--secure-port": str(port), "--audit-log-path": str(folder / "audit.log")}
    names = [argument.partition("=")[0] for argument in first.command]
    command = [f"{name}={own[name]}" if name in own else argument for name, argument in zip(names, first.command, strict=True)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=cluster.layout.kwok)
    try:
        address = f"https://127.0.0.1:{port}"
        wait_until(lambda: _is_ready(cluster, address), timeout_s=60, what=f"a second API server; see {folder}/log")
        yield address
    finally:
        process.kill()
        process.wait()
        ports.release(folder)


@contextlib.contextmanager
def shifted_clock(cluster: Cluster, server: str, seconds: float) -> Iterator[str]:
    """The API server as if its clock were off by so many seconds: a proxy that changes ``Date``; gives the address of the proxy."""
    tls = _trust(cluster)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError):  # the client has ended
                super().handle_one_request()

        def do_GET(self) -> None:
            self._forward()

        def do_POST(self) -> None:
            self._forward()

        def do_PATCH(self) -> None:
            self._forward()

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: self.headers[name] for name in FORWARDED if name in self.headers}
            connection = http.client.HTTPSConnection(server.removeprefix("https://"), context=tls, timeout=TIMEOUT_S)
            with contextlib.closing(connection):
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name not in ("Date", "Transfer-Encoding", "Content-Length", "Connection"):
                    self.send_header(name, value)
            date = parsedate_to_datetime(answer.headers["Date"]) + timedelta(seconds=seconds)
            self.send_header("Date", format_datetime(date, usegmt=True))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_of: Any) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()


def kubeconfig_for(source: Path, server: str, target: Path) -> Path:
    """The same user at another server; a token, because a proxy cannot forward a client certificate."""
    text = re.sub(r"server: \S+", f"server: {server}", source.read_text())
    if server.startswith("http:"):
        document = yaml.safe_load(text)
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        text = yaml.safe_dump(document)
    target.write_text(text)
    return target


def _trust(cluster: Cluster) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))


def _is_ready(cluster: Cluster, address: str) -> bool:
    connection = http.client.HTTPSConnection(address.removeprefix("https://"), context=_trust(cluster), timeout=2)
    return is_healthy(connection, "/readyz")
