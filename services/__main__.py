# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Start a program by its name, as the image of the services does: ``python -m ansible_collections.onprem.kube_scheduling.services rescuer``."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from types import FrameType

from ..plugins.module_utils.model.values.nearest import nearest
from .common.version import version

PROGRAMS = {
    "rebalancer": "spreads collapsed and skewed workloads again",
    "rescuer": "frees capacity for critical pods for which the scheduler finds no node",
    "extender": "scores and filters nodes for kube-scheduler by live signals",
}

HELP = "\n".join(
    (
        f"usage: python -m {__package__} PROGRAM [OPTION...]",
        "",
        "Start a program of the collection onprem.kube_scheduling.",
        "",
        *(f"  {name:<12}{meaning}" for name, meaning in PROGRAMS.items()),
        "",
        "PROGRAM --help lists the options of a program. --version prints the version of the collection.",
    )
)
CONFIGURATION = 2


def main() -> int:
    """Start the program that the first argument names. Such a program ends the process itself."""
    name, *arguments = sys.argv[1:] or [""]
    if name in ("-h", "--help"):
        print(HELP)
        return 0
    if name == "--version":
        print(version())
        return 0
    if name not in PROGRAMS:
        problem = f"{name} is not a program{nearest(name, PROGRAMS)}" if name else "the name of a program is missing"
        print(f"services: {problem}. The programs are {', '.join(PROGRAMS)}", file=sys.stderr)
        return CONFIGURATION
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)
    sys.argv = [name, *arguments]
    runpy.run_module(f"{__package__}.{name}", run_name="__main__", alter_sys=True)
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    """End the process as the signal does by default. The kernel ignores that default for the first process of a container.

    A program replaces this handler by its own when it has read its settings.
    """
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
