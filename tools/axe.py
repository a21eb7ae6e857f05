# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""axe-core, which finds barriers for people with disabilities in a page, from its npm package."""

from __future__ import annotations

from pathlib import Path

from tools import npm

PACKAGE = npm.Package("axe-core", "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")


def ensure() -> Path:
    """Return the file of the script. It is downloaded once. Raises ToolError."""
    return npm.ensure(PACKAGE, "axe") / "axe.min.js"
