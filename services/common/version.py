# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The version of the collection."""

from __future__ import annotations

import importlib.metadata
import json
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_WHEEL = "onprem-kube-scheduling"
"""The name of the wheel in pyproject.toml."""


@cache
def version() -> str:
    """Return the version from MANIFEST.json of an installed collection, from galaxy.yml of a repository, or from the installed wheel."""
    try:
        return str(json.loads((_ROOT / "MANIFEST.json").read_bytes())["collection_info"]["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        found = re.search(r"^version:\s*(\S+)", (_ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return _version_of_wheel()
    return found[1] if found else "unknown"


def _version_of_wheel() -> str:
    try:
        return importlib.metadata.version(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
