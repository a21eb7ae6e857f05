# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How often, how soon, and what survives in the texts that are kept."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.memory.attempts import (
    FAILED,
    KEPT_FOR_S,
    MOST_ENTRIES,
    RESCUED,
    UNDER_WAY,
    UNDER_WAY_FOR_S,
    Attempt,
    begun,
    changes,
    failed,
    may_try,
    read_attempts,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.timestamps import format_time

NOW = 1_767_225_600.0
GOOD = '{"attempts":1,"name":"kube-system/dns","pod":"p","result":"failed","time":"2026-01-01T00:00:00Z"}'


def entry(attempts: int = 1, *, ago_s: float = 0, result: str = FAILED, pod: str = "old") -> Attempt:
    return Attempt(attempts=attempts, time=format_time(NOW - ago_s), pod=pod, name="kube-system/dns", result=result)


def refusal(kept: Attempt | None, max_attempts: int = 30, pod_uid: str = "new") -> str | None:
    reason = may_try(kept, now_s=NOW, max_attempts=max_attempts, pod_uid=pod_uid)
    return reason.code if reason is not None else None


def test_the_first_attempt_is_free() -> None:
    assert refusal(None) is None


@pytest.mark.parametrize(
    ("attempts", "wait_s"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 960), (7, 1920), (8, 3600), (9, 3600), (29, 3600)]
)
def test_the_pause_doubles_up_to_an_hour(attempts: int, wait_s: int) -> None:
    assert refusal(entry(attempts, ago_s=wait_s - 1)) == "backoff"
    assert refusal(entry(attempts, ago_s=wait_s)) is None


def test_used_up_attempts_do_not_come_back_by_waiting() -> None:
    assert refusal(entry(2, ago_s=KEPT_FOR_S - 1), max_attempts=3) is None
    assert refusal(entry(3, ago_s=KEPT_FOR_S - 1), max_attempts=3) == "attempts_used_up"


@pytest.mark.parametrize(
    ("kept", "pod_uid", "expected"),
    [
        (entry(3, result=UNDER_WAY, pod="same"), "same", None),
        (entry(3, result=UNDER_WAY, pod="same", ago_s=UNDER_WAY_FOR_S - 1), "same", None),
        (entry(3, result=UNDER_WAY, pod="same", ago_s=UNDER_WAY_FOR_S), "same", "attempts_used_up"),
        (entry(3, result=UNDER_WAY, pod="same"), "another", "attempts_used_up"),
        (entry(2, result=UNDER_WAY, pod="same"), "another", "backoff"),
        (entry(2, result=FAILED, pod="same"), "same", "backoff"),
    ],
)
def test_only_what_is_under_way_for_this_pod_goes_on(kept: Attempt, pod_uid: str, expected: str | None) -> None:
    assert refusal(kept, 3, pod_uid) == expected


def test_the_refusal_says_when_to_come_back() -> None:
    reason = may_try(entry(1, ago_s=10), now_s=NOW, max_attempts=3, pod_uid="new")
    assert reason is not None and "next attempt in 21 s" in reason.text


def test_to_begin_twice_counts_once() -> None:
    first = begun(None, now_s=NOW, pod_uid="p", name="a/b")
    again = begun(first, now_s=NOW + 40, pod_uid="p", name="a/b")
    assert (first.attempts, first.result, again) == (1, UNDER_WAY, first)
    ended = failed(again, now_s=NOW + 60, pod_uid="p", name="a/b")
    assert (ended.attempts, ended.result, ended.time) == (1, FAILED, format_time(NOW + 60))
    assert begun(ended, now_s=NOW + 99, pod_uid="p", name="a/b").attempts == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        '{"attempts":"many"}',
        GOOD.replace("1,", "0,", 1),
        GOOD.replace("failed", "glorious"),
        GOOD.replace("2026-01-01T00:00:00Z", "2026-01-01"),
        GOOD.replace("2026-01-01T00:00:00Z", "tomorrow"),
        GOOD.replace("2026-01-01T00:00:00Z", "2026-01-01T00:05:01Z"),
        GOOD.replace("2026-01-01T00:00:00Z", "2025-12-25T00:00:00Z"),
        GOOD.replace("2026", "9999"),
    ],
)
def test_what_cannot_be_read_counts_as_absent_and_is_dropped(text: str) -> None:
    data = {"broken": text, "good": GOOD}
    assert list(read_attempts(data, now_s=NOW)) == ["good"]
    assert changes(data, "other", None, now_s=NOW) == {"broken": None}


def test_clocks_may_differ_a_little() -> None:
    assert "good" in read_attempts({"good": GOOD.replace("00:00:00Z", "00:05:00Z")}, now_s=NOW)


def test_only_what_changes_is_written() -> None:
    data = {"good": GOOD, "done": entry(result=RESCUED).to_text()}
    assert changes({"good": GOOD}, "other", None, now_s=NOW) == {}
    new = entry(2)
    assert changes(data, "other", new, now_s=NOW) == {"done": None, "other": new.to_text()}
    assert changes({"good": GOOD}, "good", entry(result=RESCUED), now_s=NOW) == {"good": None}
    assert changes({"good": GOOD}, "good", None, now_s=NOW) == {"good": None}
    assert changes(None, "good", entry(), now_s=NOW) == {"good": entry().to_text()}


def test_the_oldest_give_way() -> None:
    data = {f"owner-{number}": entry(ago_s=number).to_text() for number in range(MOST_ENTRIES)}
    wanted = changes(data, "new", entry(), now_s=NOW)
    assert wanted == {f"owner-{MOST_ENTRIES - 1}": None, "new": entry().to_text()}
