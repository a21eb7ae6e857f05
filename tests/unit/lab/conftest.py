# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every test has a cache folder of its own, so that nothing depends on what this machine has built before."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for variable in ("LAB_BIN_DIR", "LAB_KUBERNETES"):
        monkeypatch.delenv(variable, raising=False)
    return folder
