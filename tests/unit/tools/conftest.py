# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of tools."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def git_without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repositories of tests are not those of a hook that calls the tests, and their commits are not signed."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
