# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a cluster from the official releases of Kubernetes, etcd and kwok.

A program gets its name only when its file has the checksum that the release publishes.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import platform
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from lab.progress import HEARTBEAT_S

BASES = {"kubernetes": "https://dl.k8s.io", "github": "https://github.com", "api": "https://api.github.com"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SILENCE_S = 15.0
"""A server that sends nothing for so long has failed."""
CHUNK_BYTES = 1 << 16


class DownloadError(Exception):
    """A program could not be downloaded. The text has the URL and the reason."""


@dataclass(frozen=True)
class _Source:
    """The URLs of a file and of its checksum.

    ``read`` returns the checksum from the text of its URL and the name of the file. ``member``: the path of the program in the file, if
    that is an archive.
    """

    url: str
    checksum_url: str
    read: Callable[[str, str], str]
    member: str = ""


@dataclass(frozen=True)
class Releases:
    """The versions of the programs."""

    kubernetes: str
    etcd: str
    kwok: str

    @property
    def folder_name(self) -> str:
        return f"releases-{self.kubernetes}-etcd-{self.etcd}-kwok-{self.kwok}-{platform.machine()}"

    def fetch(self, program: str, folder: Path, log: Callable[[str], None]) -> None:
        """Put a program into the folder. Raises DownloadError."""
        source = self._source(program)
        file, unfinished = folder / f".{program}.download", folder / f".{program}.unfinished"
        log(f"binaries: downloading {source.url}")
        try:
            published = _published(source)
            found = _save(source.url, file, log)
            if found != published:
                raise DownloadError(f"{source.url} has the SHA-256 {found}, but its release publishes {published}")
            if source.member:
                _extract(file, source.member, unfinished)
            else:
                file.replace(unfinished)
            unfinished.chmod(0o755)
            unfinished.replace(folder / program)
        finally:
            file.unlink(missing_ok=True)
            unfinished.unlink(missing_ok=True)

    def _source(self, program: str) -> _Source:
        architecture = ARCHITECTURES.get(platform.machine())
        if architecture is None:
            raise DownloadError(f"the releases are for {' and '.join(ARCHITECTURES)}, this is {platform.machine()}")
        github = BASES["github"]
        if program == "etcd":
            folder = f"{github}/etcd-io/etcd/releases/download/v{self.etcd}"
            name = f"etcd-v{self.etcd}-linux-{architecture}"
            return _Source(f"{folder}/{name}.tar.gz", f"{folder}/SHA256SUMS", _in_list, member=f"{name}/etcd")
        if program.startswith("kwok"):
            url = f"{github}/kubernetes-sigs/kwok/releases/download/v{self.kwok}/{program}-linux-{architecture}"
            # This release has no file with checksums. GitHub publishes those of its files.
            return _Source(url, f"{BASES['api']}/repos/kubernetes-sigs/kwok/releases/tags/v{self.kwok}", _of_asset)
        url = f"{BASES['kubernetes']}/v{self.kubernetes}/bin/linux/{architecture}/{program}"
        return _Source(url, f"{url}.sha256", _alone)


def _published(source: _Source) -> str:
    """Return the checksum that the release publishes."""
    with _answer(source.checksum_url) as answer:
        text = answer.read().decode(errors="replace")
    name = source.url.rpartition("/")[2]
    try:
        checksum = source.read(text, name)
    except (ValueError, LookupError, TypeError):
        checksum = ""
    if not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise DownloadError(f"{source.checksum_url} has no SHA-256 of {name}")
    return checksum


def _save(url: str, file: Path, log: Callable[[str], None]) -> str:
    """Write what the URL has into a file, and return its checksum."""
    checksum, received, next_line = hashlib.sha256(), 0, time.monotonic() + HEARTBEAT_S
    with _answer(url) as answer, file.open("wb") as output:
        size = int(answer.headers.get("Content-Length", 0))
        while chunk := answer.read(CHUNK_BYTES):
            output.write(chunk)
            checksum.update(chunk)
            received += len(chunk)
            if time.monotonic() > next_line:
                log(f"  ... {url.rpartition('/')[2]}: {received / 1e6:.0f} of {size / 1e6:.0f} MB")
                next_line = time.monotonic() + HEARTBEAT_S
    if received < size:
        raise DownloadError(f"{url} ended after {received:,} of {size:,} bytes")
    return checksum.hexdigest()


@contextmanager
def _answer(url: str) -> Iterator[http.client.HTTPResponse]:
    try:
        with _opener().open(url, timeout=SILENCE_S) as answer:
            yield answer
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if type(error) is URLError else error
        raise DownloadError(f"{url}: {' '.join(str(reason).split())}") from error


@cache
def _opener() -> OpenerDirector:
    return build_opener(_SameScheme)


class _SameScheme(HTTPRedirectHandler):
    """Follows a redirect only with the same scheme, so that https stays https."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != req.type:
            raise URLError(f"it redirects to {newurl}, which is not {req.type}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _alone(text: str, _name: str) -> str:
    """Return the checksum of a file that has only this one."""
    return text.strip()


def _in_list(text: str, name: str) -> str:
    """Return a checksum of a file as sha256sum writes it."""
    return next((words[0] for words in map(str.split, text.splitlines()) if words[1:] == [name]), "")


def _of_asset(text: str, name: str) -> str:
    """Return a checksum of GitHub's description of a release."""
    digests = {asset["name"]: str(asset["digest"]) for asset in json.loads(text)["assets"]}
    return digests[name].removeprefix("sha256:")


def _extract(archive: Path, member: str, target: Path) -> None:
    try:
        with tarfile.open(archive) as files, target.open("wb") as output:
            source = files.extractfile(member)
            if source is None:
                raise tarfile.TarError(f"{member} is not a file")
            shutil.copyfileobj(source, output)
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise DownloadError(f"{archive.name}: {error}") from error
