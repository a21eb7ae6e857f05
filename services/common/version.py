# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The version of the collection."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@cache
def version() -> str:
    """Return the version from MANIFEST.json of an installed collection, or from galaxy.yml of a repository."""
    try:
        return str(json.loads((_ROOT / "MANIFEST.json").read_bytes())["collection_info"]["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        found = re.search(r"^version:\s*(\S+)", (_ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else "unknown"
