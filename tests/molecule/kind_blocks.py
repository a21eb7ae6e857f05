# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs the commands of the guides that are marked for a kind cluster: python -m tests.molecule.kind_blocks.

The scenario `lifecycle` calls it while the programs are installed, and again while there is a second scheduler. Both also work with another
cluster.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.ended_together import ended_together, namespace_obstacle
from tests.guide_blocks import KIND, Block, blocks
from tools import docs

LIMIT_S = 300
INVENTORY = "inventory.yml"
"""The inventory in the commands of the guides."""


def blocks_of(part: str) -> list[Block]:
    """Return the blocks for a part of the scenario, in the order of the documents."""
    return [block for page in docs.pages() for block in blocks(page) if block.mark == KIND[part]]


def run(commands: Sequence[Block], *, inventory: Path, kubeconfig: Path) -> list[str]:
    """Run each block in a shell of its own, and return the blocks that have failed, each with its exit code.

    The shells have a folder with the inventory, and the variable KUBECONFIG. At the limit, the programs that a shell has started are ended
    with it. Only the shell is ended where this user cannot make a namespace.
    """
    together = list if namespace_obstacle() else ended_together
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig.resolve())}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / INVENTORY).symlink_to(inventory.resolve())
        for block in commands:
            print(f"== {block} ==", flush=True)
            shell = together(["bash", "-eu", "-o", "pipefail", "-c", block.script])
            try:
                code = subprocess.run(shell, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT_S).returncode
            except subprocess.TimeoutExpired:
                failed.append(f"{block} did not end within {LIMIT_S} s")
                continue
            if code:
                failed.append(f"{block} ended with exit code {code}")
    return failed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.molecule.kind_blocks", description=__doc__)
    parser.add_argument("--part", choices=sorted(KIND), required=True)
    parser.add_argument("--inventory", type=Path, required=True, help=f"the file that the commands know as {INVENTORY}")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    given = parser.parse_args(arguments)
    failed = run(blocks_of(given.part), inventory=given.inventory, kubeconfig=given.kubeconfig)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
