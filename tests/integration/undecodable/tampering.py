# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before an API server that serves some objects otherwise, as no API server of the lab would."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.cluster import Cluster

Json = dict[str, Any]
Change = Callable[[Json], Any]

HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "accept-encoding", "host"}
_RESOURCE = re.compile(r"^(?:/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/[^/]+))?/([a-z]+)")


class Proxy:
    """Serves plain HTTP on an address of its own, as the cluster's administrator. ``kubeconfig`` leads to it.

    ``change(resource, name, make)``: from now on the object is served as ``make`` changes it in lists, in watches and by itself. What
    ``make`` returns is served in its place, unless that is None. Other clients see nothing of it.
    """

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self.changes: dict[tuple[str, str], Change] = {}
        self._cluster = cluster
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        server = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.kubeconfig = kubeconfig
        kubeconfig.write_text(json.dumps(_kubeconfig(server)))

    def change(self, resource: str, name: str, make: Change) -> None:
        self.changes[resource, name] = make

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def served(self, resource: str, item: Json) -> Any:
        make = self.changes.get((resource, item.get("metadata", {}).get("name", "")))
        if make is None:
            return item
        changed = make(item)
        return item if changed is None else changed

    def rewrite(self, resource: str, data: bytes) -> bytes:
        """A whole answer."""
        answer = json.loads(data)
        if "items" in answer:
            answer["items"] = [self.served(resource, item) for item in answer["items"] or ()]
        else:
            answer = self.served(resource, answer)
        return _compact(answer)

    def rewrite_event(self, resource: str, line: bytes) -> bytes:
        """One line of a watch."""
        event = json.loads(line)
        if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
            event["object"] = self.served(resource, event["object"])
        return _compact(event) + b"\n"

    def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def carry(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                outer = connection_to(proxy._cluster)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
                    outer.request(self.command, self.path, body, headers)
                    # A program that ends closes its watches.
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        self.answer(outer.getresponse())
                finally:
                    outer.close()

            def answer(self, response: http.client.HTTPResponse) -> None:
                found = _RESOURCE.match(urlsplit(self.path).path)
                resource = found[1] if found is not None else ""
                headers = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
                self.send_response(response.status)
                for name, value in headers:
                    self.send_header(name, value)
                if "watch=true" in self.path and response.status == 200:
                    self.watch(resource, response)
                    return
                data = response.read()
                if response.status < 300 and data.startswith(b"{") and resource and not self.path.rpartition("/")[2].startswith("eviction"):
                    data = proxy.rewrite(resource, data)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def watch(self, resource: str, response: http.client.HTTPResponse) -> None:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while line := response.readline():
                    self.write_chunk(proxy.rewrite_event(resource, line))
                self.write_chunk(b"")

            def write_chunk(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            do_GET = do_POST = do_PATCH = do_DELETE = carry

            def log_message(self, format: str, *args: Any) -> None:
                """Not of interest."""

        return Handler


def connection_to(cluster: Cluster) -> http.client.HTTPSConnection:
    """To the API server, as the cluster's administrator."""
    pki = cluster.layout.pki
    tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return http.client.HTTPSConnection(urlsplit(cluster.server).netloc, context=tls, timeout=600)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _kubeconfig(server: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
        "current-context": "proxy",
    }
