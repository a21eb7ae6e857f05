# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checksum of a file on the controller."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sum_of(file):
    """Return the SHA-256 sum of a file."""
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
