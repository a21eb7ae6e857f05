# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pauses of evictions, which pass immediately."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart import eviction_wait


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The lengths of the pauses in seconds."""
    pauses: list[float] = []
    monkeypatch.setattr(eviction_wait.time, "sleep", pauses.append)
    return pauses
