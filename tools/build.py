# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builds the collection's artifact into dist/, out of the files that git knows. The same commit has the same bytes."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import tarfile
import zlib
from pathlib import Path

from tools.errors import ToolError, exit_with
from tools.paths import ENVIRONMENT, ROOT
from tools.working_copy import working_copy

DIST = ROOT / "dist"
GZIP_HEADER = bytes.fromhex("1f8b0800000000000203")
"""The format, deflate, no flags, no time, the best compression, Unix."""


def main() -> int:
    for old in DIST.glob("*.tar.gz"):
        old.unlink()
    print(build(DIST).relative_to(ROOT))
    return 0


def build(folder: Path) -> Path:
    """The artifact, made in `folder`, which must not have one yet."""
    with working_copy() as copy:
        command = [str(ENVIRONMENT / "bin" / "ansible-galaxy"), "collection", "build", "--output-path", str(folder), str(copy)]
        answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"ansible-galaxy collection build failed:\n{answer.stdout}{answer.stderr}".rstrip())
    artifact = next(folder.glob("*.tar.gz"))
    artifact.write_bytes(without_build_time(artifact.read_bytes(), source_date()))
    return artifact


def source_date() -> int:
    """Return SOURCE_DATE_EPOCH, or the time of the commit, in seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    answer = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(answer.stdout) if answer.returncode == 0 else 0


def without_build_time(archive: bytes, time_s: int) -> bytes:
    """Return the archive with this time in all entries, and none in the header of gzip.

    ansible-galaxy gives them the time of the build, or of the checkout. After the two manifests the entries are sorted.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target:
        members = source.getmembers()
        for member in [*members[:2], *sorted(members[2:], key=lambda entry: entry.name)]:
            content = source.extractfile(member) if member.isreg() else None
            member.mtime, member.pax_headers = time_s, {}
            target.addfile(member, content)
    return in_gzip(packed.getvalue())


def in_gzip(content: bytes) -> bytes:
    """Return the content in the format of gzip (RFC 1952), with the same header on each system.

    gzip.compress() of Python 3.11 writes the number of Unix as the operating system, and that of later versions an unknown one.
    """
    deflate = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    end = struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)
    return GZIP_HEADER + deflate.compress(content) + deflate.flush() + end


if __name__ == "__main__":
    exit_with(main, "build")
