# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The artifact of the collection has the same bytes with each version of Python."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from tools.build import in_gzip, without_build_time

# ID1 ID2, deflate, no flags, four bytes of time, XFL for the best compression, Unix.
HEADER = bytes.fromhex("1f8b 08 00 00000000 02 03")


def test_the_header_of_an_archive_is_always_the_same() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as target:
        for name in ("MANIFEST.json", "FILES.json", "b", "a"):
            target.addfile(tarfile.TarInfo(name))
    packed = without_build_time(archive.getvalue(), 1_700_000_000)
    assert packed[:10] == HEADER
    with tarfile.open(fileobj=io.BytesIO(packed)) as source:
        entries = [(member.name, member.mtime) for member in source]
    assert entries == [(name, 1_700_000_000) for name in ("MANIFEST.json", "FILES.json", "a", "b")]


@pytest.mark.parametrize("content", [b"", b"collection " * 10_000])
def test_only_the_header_differs_from_the_compression_of_python(content: bytes) -> None:
    packed = in_gzip(content)
    assert packed[:10] == HEADER
    assert gzip.decompress(packed) == content
    assert packed[10:] == gzip.compress(content, compresslevel=9, mtime=0)[10:]
