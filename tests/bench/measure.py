# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times whole processes, in turn, so that a drift of the machine's speed meets all of them alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLLECTIONS = Path(__file__).resolve().parents[2] / ".venv" / "collections"


@dataclass(frozen=True)
class Command:
    """A process to measure. ``output`` and ``errors`` are files for what it writes; without them its output is read and thrown away."""

    arguments: Sequence[str]
    input: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None
    errors: Path | None = None


@dataclass
class Figures:
    """The wall and CPU seconds of the runs of one command, the CPU seconds of the server meanwhile, and the peak resident memory in MB."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    server_cpu_s: list[float] = field(default_factory=list)
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
    def server_cpu(self) -> float:
        """Median of the server's CPU times. Raises StatisticsError if they were not measured."""
        return statistics.median(self.server_cpu_s)

    @property
    def least_cpu(self) -> float:
        """The run with the least user and system time together. Other programs on the machine only make this time longer."""
        return min(self.cpu_s)

    @property
    def memory(self) -> float:
        """Largest peak."""
        return max(self.memory_mb)


def python(module: str, *arguments: str, output: Path, input: str = "") -> Command:
    """A Python module as a process of its own, with this collection importable.

    Processes start at what their parent has in memory, so the parent imports nothing large.
    """
    return Command([sys.executable, "-m", module, *arguments], input=input, env={"PYTHONPATH": str(COLLECTIONS)}, output=output)


def run_in_turn(
    commands: Mapping[str, Command], *, runs: int, before_each: Callable[[], None], server_cpu_s: Callable[[], float] | None = None
) -> dict[str, Figures]:
    """Each command once as a warm-up and then ``runs`` times, one after the other in turn.

    ``server_cpu_s`` returns the CPU seconds that the server has used so far.
    """
    figures = {name: Figures() for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            before_each()
            target = Figures() if number == 0 else figures[name]
            before_s = server_cpu_s() if server_cpu_s else 0.0
            run(command, target)
            if server_cpu_s:
                target.server_cpu_s.append(server_cpu_s() - before_s)
        _say(f"run {number} of {runs}")
    return figures


def run_once(name: str, command: Command) -> Figures:
    """A command that takes too long to be repeated, without a warm-up."""
    figures = Figures()
    run(command, figures)
    _say(f"{name}: {figures.wall:.0f} s")
    return figures


def run(command: Command, figures: Figures) -> None:
    """Run it to its end and add what it took. Raises SystemExit where it fails."""
    started = time.perf_counter()
    output = command.output.open("wb") if command.output else subprocess.PIPE
    errors = command.errors.open("wb") if command.errors else None
    process = subprocess.Popen(command.arguments, stdin=subprocess.PIPE, stdout=output, stderr=errors, env={**os.environ, **command.env})
    assert process.stdin is not None
    process.stdin.write(command.input.encode())
    process.stdin.close()
    while process.stdout is not None and process.stdout.read(1 << 20):
        pass
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command.arguments)} ended with {process.returncode}")
    figures.wall_s.append(time.perf_counter() - started)
    figures.cpu_s.append(usage.ru_utime + usage.ru_stime)
    # Linux gives kilobytes.
    figures.memory_mb.append(usage.ru_maxrss / 1024)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
