# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times whole processes, in turn, so that a drift of the machine's speed meets all of them alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Figures:
    """What the runs of one command took: wall and cpu seconds, and peak resident memory in MB."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median of the wall times."""
        return statistics.median(self.wall_s)

    @property
    def cpu(self) -> float:
        """Median of user and system time together."""
        return statistics.median(self.cpu_s)

    @property
    def memory(self) -> float:
        """Largest peak."""
        return max(self.memory_mb)


def run_in_turn(
    commands: Mapping[str, Sequence[str]], *, inputs: Mapping[str, str], env: Mapping[str, str], runs: int
) -> dict[str, Figures]:
    """Each command once as a warm-up and then ``runs`` times, one after the other in turn."""
    figures = {name: Figures() for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            wall, usage = _run(command, inputs.get(name, ""), env)
            if number == 0:
                continue
            figures[name].wall_s.append(wall)
            figures[name].cpu_s.append(usage.ru_utime + usage.ru_stime)
            figures[name].memory_mb.append(usage.ru_maxrss / 1024)
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
    return figures


def _run(command: Sequence[str], text: str, env: Mapping[str, str]) -> tuple[float, os.struct_rusage]:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env})
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(text.encode())
    process.stdin.close()
    while process.stdout.read(1 << 20):
        pass
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - started, usage
