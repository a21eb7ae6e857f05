# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cache keeps what was used last, and no more than it may."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.bounded_cache import BoundedCache


def test_values_that_were_used_last_are_kept_and_others_are_made_again() -> None:
    made: list[str] = []
    recent: BoundedCache[str, str] = BoundedCache(2)

    def ask(key: str) -> str:
        return recent.get(key, lambda: made.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [ask(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]
