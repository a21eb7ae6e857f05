# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs mean the same to the real kubectl and to this collection."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_settings import settings_of_kubeconfig
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_source import Source
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab import binaries


class Server(ThreadingHTTPServer):
    """A server with TLS that keeps the login and the client certificate of the last request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.login = ""
        self.certificate: Any = None
        self.authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.authority.configure_trust(context)
        self.authority.issue_cert("127.0.0.1").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.login = self.headers.get("Authorization", "")
        self.server.certificate = cast(ssl.SSLSocket, self.connection).getpeercert()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def kubectl(kubeconfig: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    environment = {**kept, "KUBECONFIG": kubeconfig, "HOME": "/nowhere"}
    command = [str(binaries.ensure() / "kubectl"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def write(file: Path, server: str, user: dict[str, Any], *, context: str = "lab", **more: Any) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": "ca.pem"}}],
        "users": [{"name": "me", "user": user}],
        **more,
    }
    file.write_text(yaml.safe_dump(content))
    return str(file)


@pytest.mark.parametrize(
    "user",
    [
        {"token": "own", "tokenFile": "token"},
        {"token": "", "tokenFile": "token"},
        {"token": "own", "tokenFile": "nowhere"},
        {"token": "own", "tokenFile": "empty"},
        {"tokenFile": "token"},
        {"token": "own"},
        {"username": "me"},
        {"username": "me", "password": ""},
        {"username": "me", "password": "own"},
    ],
)
def test_the_same_token_is_sent(server: Server, user: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of the file\n")
    (tmp_path / "empty").touch()
    server.authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    file = write(tmp_path / "config", f"https://127.0.0.1:{server.server_port}", user)
    answer = kubectl(file, "get", "--raw", "/version")
    assert answer.returncode == 0, answer.stderr
    assert settings_of_kubeconfig(Source(file)).authorization() == server.login


@pytest.mark.parametrize("empty", ["", None])
def test_files_beside_empty_keys_are_used_and_this_machine_is_reached_without_a_proxy(
    server: Server, empty: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    mine = server.authority.issue_cert("me@example.org")
    mine.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    server.authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    address = f"https://127.0.0.1:{server.server_port}"
    cluster = {"server": address, "certificate-authority": "ca.pem", "certificate-authority-data": empty}
    user = {"client-certificate": "cert.pem", "client-certificate-data": empty, "client-key": "key.pem", "client-key-data": empty}
    file = write(tmp_path / "config", address, user, clusters=[{"name": "lab", "cluster": cluster}])
    answer = kubectl(file, "get", "--raw", "/version")
    assert answer.returncode == 0 and server.certificate, answer.stderr
    of_kubectl, server.certificate = server.certificate, None
    open_transport(kubeconfig=file, user_agent="x")
    assert server.certificate == of_kubectl


def test_of_several_kubeconfigs_the_same_server_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    one = write(tmp_path / "a", "https://a.example", {"token": "a"})
    other = write(tmp_path / "b", "https://b.example", {"token": "b"}, context="two")
    without = write(tmp_path / "c", "https://c.example", {}, context="")
    (tmp_path / "empty").touch()
    for files in ((one, other), (other, one), (str(tmp_path / "empty"), one), ("/nowhere", other, one), (without, other), ("", one)):
        kubeconfig = ":".join(files)
        of_kubectl = kubectl(kubeconfig, "config", "view", "--minify", "-o", "jsonpath={..server}")
        assert settings_of_kubeconfig(Source(kubeconfig)).server == of_kubectl.stdout != "", (files, of_kubectl.stderr)


def test_two_entries_with_one_name_in_a_file_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "config", "https://a.example", {}, users=[{"name": "me", "user": {"token": name}} for name in "ab"])
    answer = kubectl(file, "config", "view")
    assert answer.returncode != 0 and 'duplicate name "me"' in answer.stderr
    with pytest.raises(ConnectionSettingsError, match="users has two entries with the name me"):
        settings_of_kubeconfig(Source(file))
