# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""runc for a machine whose root lacks CAP_SYS_RESOURCE.

An engine asks for all capabilities for a privileged container, and runc refuses one that it does not have itself. This program removes the
capability from the specification, and then becomes the real runc. `lab.kind.dockerd` installs a copy for its own daemon.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

CAPABILITY = "CAP_SYS_RESOURCE"


def specification(arguments: list[str]) -> Path | None:
    """Return the file with the capabilities that this call of runc reads, if it reads one."""
    if "exec" in arguments:
        process = _value(arguments, "--process", "-p")
        return Path(process) if process else None
    if "create" in arguments or "run" in arguments:
        return Path(_value(arguments, "--bundle", "-b") or ".", "config.json")
    return None


def without_capability(path: Path) -> None:
    """Remove the capability from the file. The file may be a container's or a single process's."""
    content = json.loads(path.read_text())
    for names in (content.get("process", content).get("capabilities") or {}).values():
        if names and CAPABILITY in names:
            names.remove(CAPABILITY)
    path.write_text(json.dumps(content))


def _value(arguments: list[str], *names: str) -> str | None:
    return next((value for name, value in itertools.pairwise(arguments) if name in names), None)


def main() -> None:
    path = specification(sys.argv)
    if path is not None:
        without_capability(path)
    os.execvp("runc", ["runc", *sys.argv[1:]])


if __name__ == "__main__":
    main()
