# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Makes `.venv` and the programs of the simulated cluster at the same time: pip waits for the network while Go compiles.

Needs only Python and pip, as `tools.env`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from lab.progress import end_on_signals
from tools import interpreters
from tools.errors import ToolError, exit_with
from tools.paths import ROOT

POLL_S = 0.05


def main() -> int:
    end_on_signals()
    # `lab` needs a newer Python than `tools.env`, which finds one.
    python = str(interpreters.choose(os.environ.get("BASE_PYTHON")))
    run_side_by_side({".venv": [sys.executable, "-u", "-m", "tools.env"], "the programs": [python, "-u", "-m", "lab.binaries"]})
    return 0


def run_side_by_side(commands: Mapping[str, list[str]]) -> None:
    """Run the commands, given by what they make. If one fails, the others are ended. Raises ToolError with what could not be made."""
    running = {what: subprocess.Popen(command, cwd=ROOT) for what, command in commands.items()}
    try:
        while running:
            for what, process in list(running.items()):
                if process.poll() == 0:
                    del running[what]
                elif process.poll() is not None:
                    raise ToolError(
                        f"{what} could not be made: see the error above. Correct it, and repeat the command. Complete files are kept."
                    )
            time.sleep(POLL_S)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


if __name__ == "__main__":
    exit_with(main, "first start")
