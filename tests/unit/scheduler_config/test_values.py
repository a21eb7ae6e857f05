# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as Go reads them."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.values import duration_ns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("200ms", 200_000_000), ("1m30s", 90 * 10**9), ("1.5h", 5400 * 10**9), ("0", 0), ("-2s", -2 * 10**9), ("+1s", 10**9)),
        *((".5s", 500_000_000), ("1.s", 10**9), ("1us", 1000), ("1µs", 1000), ("3ns", 3), ("2562047h", 2562047 * 3600 * 10**9)),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ns(text) == expected


@pytest.mark.parametrize("value", ["", "5", "s", "1d", "1 s", "1s ", "-", ".s", "2562048h", 5, None, True])
def test_other_values_are_no_duration(value: object) -> None:
    assert duration_ns(value) is None
