# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Compressed answers, read through the real kubernetes client from a server of this test's own."""

from __future__ import annotations

import gzip
import json
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.errors import ForbiddenError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.resources import NODES, PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.transport import Transport
from kubernetes.client import ApiClient, Configuration
from kubernetes.dynamic import DynamicClient

PAGE = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}
REFUSAL = {"kind": "Status", "status": "Failure", "message": "not for you", "reason": "Forbidden", "code": 403}


class Server(BaseHTTPRequestHandler):
    """Answers lists compressed if the request allows it: pods in full, nodes with a refusal; ``cut`` bytes at the end never arrive."""

    compressed: t.ClassVar[list[bool]] = []
    cut = 0

    def do_GET(self) -> None:
        refused = "/nodes" in self.path
        body = json.dumps(REFUSAL if refused else PAGE).encode()
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "application/json")
        self.compressed.append("gzip" in self.headers.get("Accept-Encoding", ""))
        if self.compressed[-1]:
            self.send_header("Content-Encoding", "gzip")
            body = gzip.compress(body)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - self.cut])

    def log_message(self, *_arguments: t.Any) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeApi]:
    monkeypatch.setattr(Server, "compressed", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}")
    # Without discovery, which this collection has no need of.
    client = DynamicClient(ApiClient(configuration), discoverer=lambda *_arguments: None)
    yield KubeApi(Transport(client, user_agent="test"), retry_for_s=0)
    server.shutdown()
    server.server_close()


def test_answers_may_be_compressed(api: KubeApi) -> None:
    assert [pod.metadata.name for pod in api.list_all(PODS)] == ["a"]
    assert Server.compressed == [True]


def test_so_may_refusals(api: KubeApi) -> None:
    with pytest.raises(ForbiddenError, match="not for you"):
        api.list_all(NODES)
    assert Server.compressed == [True]


def test_a_compressed_answer_that_is_cut_off_is_a_broken_connection(api: KubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "cut", 30)
    with pytest.raises(UnreachableError):
        api.list_all(PODS)
