# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The paths that the development scripts share."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository, which is also the root of the collection."""

ENVIRONMENT = ROOT / ".venv"
COLLECTIONS = ENVIRONMENT / "collections"
"""The folder that `collections_path` in ansible.cfg names."""

NAMESPACE, NAME = "onprem", "kube_scheduling"
