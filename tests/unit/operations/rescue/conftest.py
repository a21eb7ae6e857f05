# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A plan takes no time here: a slow machine does not end a round before all pods are planned. A read that failed is soon repeated."""

from __future__ import annotations

import math

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import decisions, run


@pytest.fixture(autouse=True)
def plan_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit on the time of a round. A module with a clock of its own overrides this fixture."""
    monkeypatch.setattr(decisions, "PLAN_SLICE_S", math.inf)


@pytest.fixture(autouse=True)
def ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short pause before a read that failed is repeated."""
    monkeypatch.setattr(run, "ASK_AGAIN_S", 0.02)
