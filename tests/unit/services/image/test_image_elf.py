# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared libraries are reduced to the part that processes load."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import httptools.parser.parser
import pytest
from ansible_collections.onprem.kube_scheduling.services.image_elf import MAGIC, SHARED, reduce_all, without_sections

LIBRARY = Path(httptools.parser.parser.__file__)
"""A real shared library with symbols for debuggers and with comments of the compiler."""

COMPILER = b"GCC: ("
"""Text of a section that is not loaded."""

USE = "import httptools; print(httptools.__file__, httptools.parse_url(b'http://host/path').path)"


def test_a_reduced_library_is_smaller_and_can_be_used(tmp_path: Path) -> None:
    package = shutil.copytree(LIBRARY.parents[1], tmp_path / "httptools")
    library = package / "parser" / LIBRARY.name
    reduce_all(tmp_path)
    content, smaller = LIBRARY.read_bytes(), library.read_bytes()
    assert len(smaller) < len(content) and COMPILER in content and COMPILER not in smaller
    assert library.stat().st_mode == LIBRARY.stat().st_mode
    used = subprocess.run([sys.executable, "-c", USE], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert used.stdout == f"{package}/__init__.py b'/path'\n", used.stderr


def test_a_reduced_library_is_not_changed_again() -> None:
    once = without_sections(LIBRARY.read_bytes())
    assert without_sections(once) == once


def test_the_segments_keep_their_places_and_the_part_between_them_is_zeros() -> None:
    assert (
        without_sections(library(segments=[(200, 10), (300, 10)]))
        == library(segments=[(200, 10), (300, 10)], between=b"\0", sections=0)[:310]
    )


@pytest.mark.parametrize("content", [b"", b"GROUP ( libc.so.6 )", MAGIC[:4] + b"\1" + b"x" * 100, MAGIC + b"x" * 10 + b"\1\0" + b"x" * 100])
def test_other_files_are_not_changed(content: bytes) -> None:
    assert without_sections(content) == content


def test_an_incomplete_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "libx.so.1").write_bytes(LIBRARY.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"libx\.so\.1: .* this is no complete shared library"):
        reduce_all(tmp_path)


def library(*, segments: list[tuple[int, int]], between: bytes = b"d", sections: int = 350) -> bytes:
    """A shared library of 400 bytes with segments at these offsets and of these lengths. The other bytes are ``between``."""
    head = MAGIC + bytes(10) + SHARED.to_bytes(2, "little") + bytes(14) + (64).to_bytes(8, "little") + sections.to_bytes(8, "little")
    numbers = (0, 0, 64, 56, len(segments), *((64, 1, 0) if sections else (0, 0, 0)))
    content = bytearray(head + b"".join(number.to_bytes(2, "little") for number in numbers))
    for offset, length in segments:
        content += bytes(8) + offset.to_bytes(8, "little") + bytes(16) + length.to_bytes(8, "little") + bytes(16)
    content += between * (400 - len(content))
    for offset, length in segments:
        content[offset : offset + length] = b"s" * length
    return bytes(content)
