# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of the application."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent

from tests.unit.services.extender.extender_objects import KeepBudgets, ScoreAgent, profile, view
from tests.unit.services.extender.http.client import VALUES, Client


@pytest.fixture
def client() -> Client:
    """An application whose profile scores, filters and keeps budgets, with three nodes."""
    found = Client(profile(ConfiguredAgent(ScoreAgent(), 1, True), KeepBudgets()))
    found.engine.on_view(view(VALUES))
    return found
