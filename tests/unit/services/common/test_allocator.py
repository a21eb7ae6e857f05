# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program returns the memory of large blocks to the system when it frees them."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from ansible_collections.onprem.kube_scheduling.services.common import allocator

PROGRAM = """
import sys
from pathlib import Path

if "limit" in sys.argv:
    sys.path += [path for path in sys.argv[2:]]
    from ansible_collections.onprem.kube_scheduling.services.common.allocator import limit_free_memory, release_free_memory
    assert limit_free_memory()

def resident_mb():
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

before = resident_mb()
kept = []
for _ in range(2):
    block = bytearray(b"x") * (20 << 20)  # the second one comes from the arena, because the first one was freed
    kept.append(bytes(10_000))
    del block
small = [bytearray(100_000) for _ in range(200)]
del small[:-1]
if "limit" in sys.argv:
    release_free_memory()
print(resident_mb() - before)
"""


def kept_mb(*arguments: str) -> float:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not run: the C library is not glibc")
def test_freed_blocks_are_returned_to_the_system() -> None:
    assert kept_mb() > 10, "the default of glibc"
    assert kept_mb("limit", *sys.path) < 5


def test_a_system_without_glibc_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "LIBRARY", object())
    assert not allocator.limit_free_memory()
    allocator.release_free_memory()
