# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Numbers and times that anybody may write into an object end no run."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.integers import parse_int64
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import (
    EARLIEST_S,
    LATEST_S,
    format_micro_time,
    format_time,
    parse_time,
    read_time,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("0" * 5000 + "7", 7),
        (str(2**63), None),
        ("9" * 5000, None),
        ("²", None),
        ("٣", None),
        ("1_000", None),
        (" 1", None),
        ("1\n", None),
        ("", None),
        ("-", None),
        ("1.0", None),
    ],
)
def test_numbers_are_read_as_kubernetes_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01+01:00", 1.0),
        ("1970-01-01T00:00:00.250000Z", 0.25),
        ("10000-01-01T09:59:59Z", LATEST_S),
        ("292277026596-12-04T15:30:07Z", LATEST_S),
        ("0000-01-01T00:00:00.000000Z", EARLIEST_S),
        ("-001-12-31T14:00:00Z", EARLIEST_S),
        ("0001-01-01T00:00:00Z", EARLIEST_S),
        ("9999-12-31T23:59:59Z", LATEST_S),
    ],
)
def test_years_outside_of_the_calendar_count_as_its_ends(text: str, seconds: float) -> None:
    assert parse_time(text) == read_time(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31", "2026-01-31T08:15:00", "2026-13-31T08:15:00Z", "²026-01-31T08:15:00Z"])
def test_text_that_is_no_time_is_refused_or_counts_as_absent(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)
    assert read_time(text) is None
    assert read_time(None) is None


def test_times_that_the_calendar_does_not_have_are_written_as_its_ends() -> None:
    assert format_time(LATEST_S + 10**9) == "9999-12-31T23:59:59Z"
    assert format_micro_time(EARLIEST_S - 1) == "0001-01-01T00:00:00.000000Z"
