# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stamp of .venv: with another stamp, `make env` makes .venv again."""

from __future__ import annotations

import pytest

from tools import ansible_core, env


@pytest.mark.parametrize(("core", "changes"), [("devel", True), ("2.19", False), (None, False)])
def test_only_the_environment_of_the_development_branch_is_renewed_on_the_next_day(
    core: str | None, changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = set()
    for day in ("2026-01-01", "2026-01-01", "2026-01-02"):
        monkeypatch.setattr(ansible_core, "today", lambda day=day: day)
        stamps.add(env._stamp(None, core))
    assert len(stamps) == (2 if changes else 1)
