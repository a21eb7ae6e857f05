# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Remove from shared libraries what no process loads: symbols for debuggers, debug information and comments.

The first stage of the image's build runs it. It needs only Python's own library, because the base image need not have a linker's tools.
The format is that of elf(5). Only the segments of a shared library are loaded, so the file is reduced to them. The table of sections,
which describes the rest for linkers and debuggers, is removed.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of a file for a machine with 64 bits and little-endian numbers, as amd64 and arm64 are."""

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
"""Elf64_Ehdr: identification, type, machine, version, entry, offset of the segments' table, offset of the sections' table, flags, size of
the header, size and number of segments' entries, size and number of sections' entries, index of the names of sections."""

SEGMENT = struct.Struct("<IIQQQQQQ")
"""Elf64_Phdr: type, flags, offset, virtual address, physical address, size in the file, size in memory, alignment."""

SHARED = 3
"""ET_DYN, the type of shared libraries."""


def without_sections(content: bytes) -> bytes:
    """Return a shared library with its segments only. Other content is returned unchanged.

    A part between segments is replaced by zeros, so that no segment is at another place. Raises ValueError if the content is incomplete.
    """
    if not content.startswith(MAGIC):
        return content
    header = HEADER.unpack_from(content)
    identification, kind, *between, table, _sections, flags, size, entry_size, count, _section_size, _section_count, _names = header
    if kind != SHARED:
        return content
    kept = [(0, HEADER.size), (table, entry_size * count)]
    for place in range(table, table + entry_size * count, entry_size):
        _type, _flags, offset, _virtual, _physical, length, *_rest = SEGMENT.unpack_from(content, place)
        kept.append((offset, length))
    end = max(offset + length for offset, length in kept)
    if end > len(content):
        raise ValueError(f"a segment ends at byte {end}, and the file has only {len(content)} bytes")
    result = bytearray(end)
    for offset, length in kept:
        result[offset : offset + length] = content[offset : offset + length]
    HEADER.pack_into(result, 0, identification, kind, *between, table, 0, flags, size, entry_size, count, 0, 0, 0)
    return bytes(result)


def reduce_all(root: Path) -> None:
    """Reduce the shared libraries below ``root``. Raises ValueError with the name of the file."""
    for path in sorted(root.rglob("*.so*")):
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        try:
            smaller = without_sections(content)
        except (ValueError, struct.error) as error:
            raise ValueError(f"{path}: {error}: this is no complete shared library") from None
        if smaller != content:
            path.write_bytes(smaller)


if __name__ == "__main__":
    reduce_all(Path(sys.argv[1]))
