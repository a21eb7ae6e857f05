# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Copy the folder EXAMPLE to TARGET. Each line that is marked `# change` becomes the next one of the JSON list CHANGES.

Usage: change_example.py EXAMPLE TARGET CHANGES
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

MARK = "# change"
FILES = ("inventory.yml", "group_vars/all.yml", "site.yml")
MOST = 10


def main(example: Path, target: Path, changes: list[str]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(example, target)
    marked = sum((target / name).read_text().count(MARK) for name in FILES)
    if marked != len(changes) or marked > MOST:
        raise SystemExit(f"{example} has {marked} marked lines, and there are {len(changes)} changes")
    following = iter(changes)
    for name in FILES:
        lines = (target / name).read_text().splitlines()
        (target / name).write_text("\n".join(next(following) if MARK in line else line for line in lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
