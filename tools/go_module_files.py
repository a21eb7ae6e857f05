# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Single files of Go modules: from Go's module cache if the module is there, else from the module proxy.

The proxy serves a module as a ZIP archive. Only the parts of the archive that have the files are requested.
"""

from __future__ import annotations

import io
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

from tools.errors import ToolError

BLOCK_BYTES = 256 * 1024
"""One request of the archive has at least this many bytes, so that its list of files takes few requests."""
TIMEOUT_S = 60


class GoModuleFiles:
    """The files of one version of a module, such as ``k8s.io/kubernetes`` and ``v1.36.3``."""

    def __init__(self, module: str, version: str) -> None:
        self._name = f"{module}@{version}"
        self._folder = Path(_go_env("GOMODCACHE"), self._name)
        if self._folder.is_dir():
            return
        self._archive = zipfile.ZipFile(_RemoteFile(f"{_proxy()}/{module}/@v/{version}.zip"))

    def read(self, path: str) -> str:
        """Return the text of a file, or an empty text if the module does not have it."""
        if self._folder.is_dir():
            file = self._folder / path
            return file.read_text() if file.is_file() else ""
        try:
            return self._archive.read(f"{self._name}/{path}").decode()
        except KeyError:
            return ""

    def below(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files directly in a folder."""
        if self._folder.is_dir():
            yield from (f"{folder}/{file.name}" for file in sorted((self._folder / folder).iterdir()) if file.is_file())
            return
        start = f"{self._name}/{folder}/"
        names = (name.removeprefix(start) for name in self._archive.namelist() if name.startswith(start))
        yield from (f"{folder}/{name}" for name in sorted(names) if "/" not in name)


class _RemoteFile(io.RawIOBase):
    """A file of a web server that answers requests for ranges of bytes."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._position = 0
        with _open(urllib.request.Request(url, method="HEAD")) as answer:
            self._size = int(answer.headers["Content-Length"])
        self._block = (0, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._position + size, self._size)
        start, data = self._block
        if self._position < start or end > start + len(data):
            start = self._position
            data = self._request(start, min(max(end, start + BLOCK_BYTES), self._size))
            self._block = (start, data)
        found = data[self._position - start : end - start]
        self._position = end
        return found

    def _request(self, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        with _open(urllib.request.Request(self._url, headers={"Range": f"bytes={start}-{end - 1}"})) as answer:
            data: bytes = answer.read()
        if len(data) != end - start:
            raise ToolError(
                f"{self._url}: the server sends {len(data)} bytes, and {end - start} were requested; use a proxy that serves ranges"
            )
        return data


def _open(request: urllib.request.Request) -> HTTPResponse:
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except (urllib.error.URLError, TimeoutError) as error:
        raise ToolError(f"{request.full_url}: {error}; set GOPROXY to a module proxy that can be reached") from error
    return answer


def _proxy() -> str:
    first = _go_env("GOPROXY").replace("|", ",").split(",")[0]
    if not first.startswith("http"):
        raise ToolError(f"GOPROXY begins with {first!r}: set it to the address of a module proxy")
    return first.rstrip("/")


def _go_env(name: str) -> str:
    try:
        return subprocess.run(["go", "env", name], capture_output=True, text=True, check=True, cwd="/").stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolError(f"go env {name}: {error}; install Go so that `go` is on PATH") from error
