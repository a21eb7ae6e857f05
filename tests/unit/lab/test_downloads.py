# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the releases come from a server on the loopback. After each kind of failure the missing programs are built."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request

import pytest

from lab import binaries, downloads
from lab.errors import LabError

Answer = Callable[[BaseHTTPRequestHandler], None]
NAMES = [program.name for program in binaries.PROGRAMS]
KUBERNETES = f"/v{binaries.KUBERNETES_VERSION}/bin/linux/amd64"
APISERVER = f"{KUBERNETES}/kube-apiserver"
ETCD = f"/etcd-io/etcd/releases/download/v{binaries.ETCD_VERSION}"
ETCD_ARCHIVE = f"{ETCD}/etcd-v{binaries.ETCD_VERSION}-linux-amd64.tar.gz"
KWOK = f"/kubernetes-sigs/kwok/releases/download/v{binaries.KWOK_VERSION}"
KWOK_RELEASE = f"/repos/kubernetes-sigs/kwok/releases/tags/v{binaries.KWOK_VERSION}"
HTML = b"<!DOCTYPE html><title>Please log in</title>"


@dataclass
class Server:
    """A server on the loopback with an answer for each path. Other paths are not found."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test."""


def content(body: bytes, *, status: int = 200, size: int | None = None) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(size or len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def redirect(url: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", url)
        request.end_headers()

    return answer


def program(name: str) -> bytes:
    return f"#!/bin/sh\necho {name} of the release\n".encode()


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def archive(path: str, body: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        entry = tarfile.TarInfo(path)
        entry.size = len(body)
        files.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


def releases(architecture: str = "amd64", kubernetes: str = binaries.KUBERNETES_VERSION) -> dict[str, Answer]:
    """Return all files of the releases, with their paths and the formats of their checksums."""
    files: dict[str, bytes] = {}
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
        path = f"/v{kubernetes}/bin/linux/{architecture}/{name}"
        files |= {path: program(name), f"{path}.sha256": digest(program(name)).encode()}
    name = f"etcd-v{binaries.ETCD_VERSION}-linux-{architecture}"
    packed = archive(f"{name}/etcd", program("etcd"))
    sums = f"{'0' * 64}  {name}.tar.gz.asc\n{digest(packed)}  {name}.tar.gz\n"
    files |= {f"{ETCD}/{name}.tar.gz": packed, f"{ETCD}/SHA256SUMS": sums.encode()}
    kwok = {f"{name}-linux-{architecture}": program(name) for name in ("kwok", "kwokctl")}
    files |= {f"{KWOK}/{name}": body for name, body in kwok.items()}
    assets = [{"name": name, "digest": f"sha256:{digest(body)}"} for name, body in kwok.items()]
    files[KWOK_RELEASE] = json.dumps({"assets": [{"name": "kwok.yaml", "digest": None}, *assets]}).encode()
    return {path: content(body) for path, body in files.items()}


@contextmanager
def served() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answers.get(self.path, content(b"Not Found", status=404))(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server = Server(f"http://127.0.0.1:{listening.server_port}")
        threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield server
        finally:
            server.ended.set()
            listening.shutdown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server of all releases."""
    with served() as server:
        server.answers |= releases()
        monkeypatch.setattr(downloads, "BASES", dict.fromkeys(downloads.BASES, server.url))
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setenv("LAB_PROGRAMS", "download")
        yield server


def downloaded(folder: Path) -> list[str]:
    """Return the names of the programs that are those of the releases."""
    return [name for name in NAMES if (folder / name).read_bytes() == program(name)]


def test_all_programs_are_downloaded_once_and_nothing_is_built(server: Server, go_calls: Path) -> None:
    folder = binaries.ensure(lambda _: None)
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES) == sorted(downloaded(folder))
    assert binaries.CLUSTER.missing(folder) == [] and not go_calls.exists()
    server.answers.clear()
    assert binaries.ensure(pytest.fail) == folder


def test_another_architecture_and_an_older_kubernetes_have_other_urls_and_another_folder(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = binaries.ensure(lambda _: None)
    server.answers.clear()
    server.answers |= releases("arm64", binaries.OLDER_KUBERNETES_VERSIONS[0])
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("LAB_KUBERNETES", "1.35")
    folder = binaries.ensure(lambda _: None)
    assert folder != newest and downloaded(folder) == NAMES


def test_programs_that_were_built_are_not_used_for_those_of_the_releases(
    server: Server, go_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_PROGRAMS", "build")
    built = binaries.ensure(lambda _: None)
    monkeypatch.setenv("LAB_PROGRAMS", "download")
    folder = binaries.ensure(lambda _: None)
    assert downloaded(folder) == NAMES and downloaded(built) == [] and len(go_calls.read_text().splitlines()) == 1


def test_a_redirect_is_followed_to_another_server(server: Server) -> None:
    with served() as mirror:
        mirror.answers["/mirror/kube-apiserver"] = content(program("kube-apiserver"))
        server.answers[APISERVER] = redirect(f"{mirror.url}/mirror/kube-apiserver")
        assert downloaded(binaries.ensure(lambda _: None)) == NAMES


def test_a_redirect_from_https_to_http_is_refused() -> None:
    request = Request("https://dl.k8s.io/v1.36.3/bin/linux/amd64/kubectl")
    with pytest.raises(URLError, match=r"it redirects to http://127\.0\.0\.1/kubectl, which is not https"):
        downloads._SameScheme().redirect_request(request, io.BytesIO(), 302, "Found", Message(), "http://127.0.0.1/kubectl")


def no_answer(server: Server) -> Answer:
    return lambda _: (server.ended.wait(), None)[1]


FAILURES: dict[str, tuple[str, Callable[[Server], Answer], str]] = {
    "wrong checksum": (
        APISERVER,
        lambda _: content(b"something else"),
        f"{APISERVER} has the SHA-256 {digest(b'something else')}, but its release publishes {digest(program('kube-apiserver'))}",
    ),
    "half a file": (APISERVER, lambda _: content(b"half", size=8), f"{APISERVER} ended after 4 of 8 bytes"),
    "an HTML page": (APISERVER, lambda _: content(HTML), f"{APISERVER} has the SHA-256 {digest(HTML)}, but"),
    "an HTML page for a checksum": (f"{APISERVER}.sha256", lambda _: content(HTML), ".sha256 has no SHA-256 of kube-apiserver"),
    "an HTML page for a list": (f"{ETCD}/SHA256SUMS", lambda _: content(HTML), f"{ETCD}/SHA256SUMS has no SHA-256 of etcd-v"),
    "an HTML page for a release": (KWOK_RELEASE, lambda _: content(HTML), f"{KWOK_RELEASE} has no SHA-256 of kwok-linux-amd64"),
    "a release without digests": (
        KWOK_RELEASE,
        lambda _: content(b'{"assets": [{"name": "kwok-linux-amd64", "digest": null}]}'),
        f"{KWOK_RELEASE} has no SHA-256 of kwok-linux-amd64",
    ),
    "not found": (APISERVER, lambda _: content(b"Not Found", status=404), f"{APISERVER}: HTTP Error 404: Not Found"),
    "too many requests": (KWOK_RELEASE, lambda _: content(b"{}", status=403), f"{KWOK_RELEASE}: HTTP Error 403: Forbidden"),
    "no answer": (APISERVER, no_answer, f"{APISERVER}: timed out"),
    "a redirect to a file": (
        APISERVER,
        lambda _: redirect("file:///etc/passwd"),
        f"{APISERVER}: .*file:///etc/passwd' is not allowed",
    ),
    "a redirect to itself": (APISERVER, lambda _: redirect(APISERVER), f"{APISERVER}: HTTP Error 302: .*infinite loop"),
    "a closed connection": (APISERVER, lambda _: lambda request: request.connection.close(), f"{APISERVER}: .*[Cc]losed connection"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_after_a_failure_what_is_missing_is_built_and_one_line_says_why(
    case: str, server: Server, go_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "SILENCE_S", 0.3)
    path, answer, reason = FAILURES[case]
    server.answers[path] = answer(server)
    lines: list[str] = []
    folder = binaries.ensure(lines.append)
    complete = downloaded(folder)
    missing = [name for name in NAMES if name not in complete]
    assert complete == NAMES[: NAMES.index("kwok" if path == KWOK_RELEASE else "etcd" if path.startswith(ETCD) else "kube-apiserver")]
    explained = [line for line in lines if "; so these are built: " in line]
    assert (
        len(explained) == 1
        and "\n" not in explained[0]
        and re.search(reason, explained[0])
        and explained[0].endswith(f"built: {', '.join(missing)}")
    )
    assert [line.rsplit("/", 1)[-1] for line in go_calls.read_text().split()[3:]] == [name if name != "etcd" else "v3" for name in missing]
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES) and binaries.CLUSTER.missing(folder) == []
    assert binaries.ensure(pytest.fail) == folder


def test_an_archive_without_the_program_is_a_failure(server: Server, go_calls: Path) -> None:
    packed = archive("etcd", program("etcd"))
    server.answers[ETCD_ARCHIVE] = content(packed)
    server.answers[f"{ETCD}/SHA256SUMS"] = content(f"{digest(packed)}  {ETCD_ARCHIVE.rpartition('/')[2]}\n".encode())
    lines: list[str] = []
    assert downloaded(binaries.ensure(lines.append)) == []
    assert "filename 'etcd-v3.6.8-linux-amd64/etcd' not found" in "\n".join(lines) and go_calls.exists()


def test_without_a_server_all_programs_of_an_older_kubernetes_are_built(
    server: Server, go_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers.clear()
    monkeypatch.setenv("LAB_KUBERNETES", "1.34")
    lines: list[str] = []
    folder = binaries.ensure(lines.append)
    assert downloaded(folder) == [] and binaries.CLUSTER.missing(folder) == []
    assert [line.split()[0].partition("/lab")[2] for line in go_calls.read_text().splitlines()] == ["/kubernetes/1.34", ""]


def test_an_unknown_architecture_builds(server: Server, go_calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    lines: list[str] = []
    binaries.ensure(lines.append)
    assert "the releases are for x86_64 and aarch64, this is riscv64; so these are built: " in lines[0] and go_calls.exists()


def test_an_unknown_choice_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PROGRAMS", "fetch")
    with pytest.raises(LabError, match=r"LAB_PROGRAMS=fetch: use build \(the default\) or download"):
        binaries.ensure()


def test_the_servers_of_the_releases_use_https() -> None:
    assert all(url.startswith("https://") for url in downloads.BASES.values())
