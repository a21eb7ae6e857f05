# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as options accept them."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("2m30s", 150),
        ("1h", 3600),
        ("1.5h", 5400),
        ("90", 90),
        ("0", 0),
        ("0s", 0),
        (30, 30),
        (" 5m ", 300),
        ("-5", -5),
        ("1h0m1s", 3601),
        ("1500ms500ms", 2),
    ],
)
def test_duration_is_read_in_seconds(text: object, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "10 s", "-1s", "1d", "1.5", "s10", "10sx", "500ms", "١s", "١", True, None, 1.5])
def test_other_text_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_duration(text)
