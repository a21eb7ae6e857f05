# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How often, how soon, and what survives in the texts that are kept."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.memory.attempts import (
    KEPT_FOR_S,
    LASTS_S,
    MOST_ENTRIES,
    MOST_PODS,
    UNDER_WAY_FOR_S,
    Attempt,
    VictimRecord,
    begun,
    called_off,
    changes,
    evicting,
    failed,
    helped,
    may_try,
    read_attempts,
    without_lost,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.timestamps import format_time

NOW = 1_767_225_600.0
GOOD = '{"attempts":1,"failures":{"p":1},"name":"kube-system/dns","time":"2026-01-01T00:00:00Z","under_way":{}}'


def entry(attempts: int = 1, *, ago_s: float = 0, pod: str = "old", under_way: dict[str, float] | None = None) -> Attempt:
    times = {uid: format_time(NOW - ago_s) for uid, ago_s in (under_way or {}).items()}
    failures = {pod: attempts} if attempts else {}
    return Attempt(attempts=attempts, time=format_time(NOW - ago_s), name="kube-system/dns", failures=failures, under_way=times)


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
        (entry(3, under_way={"same": 0}), "same", None),
        (entry(3, under_way={"same": UNDER_WAY_FOR_S - 1}), "same", None),
        (entry(3, under_way={"same": UNDER_WAY_FOR_S}), "same", "attempts_used_up"),
        (entry(3, under_way={"same": 0}), "another", "attempts_used_up"),
        (entry(2, under_way={"same": 0}), "another", "backoff"),
        (entry(0, under_way={"same": 0, "next": 0, "last": 0}), "another", None),
        (entry(2, pod="same"), "same", "backoff"),
    ],
)
def test_what_is_under_way_goes_on_and_is_no_failure_yet(kept: Attempt, pod_uid: str, expected: str | None) -> None:
    assert refusal(kept, 3, pod_uid) == expected


def test_the_refusal_says_when_to_come_back() -> None:
    reason = may_try(entry(1, ago_s=10), now_s=NOW, max_attempts=3, pod_uid="new")
    assert reason is not None and "next attempt in 21 s" in reason.text


def test_to_begin_twice_counts_once() -> None:
    first = begun(None, now_s=NOW, pod_uid="p", name="a/b")
    again = begun(first, now_s=NOW + 40, pod_uid="p", name="a/b")
    assert (first.attempts, list(first.under_way), again) == (0, ["p"], first)
    ended = failed(again, now_s=NOW + 60, pod_uid="p", name="a/b")
    assert (ended.attempts, ended.failures, ended.under_way, ended.time) == (1, {"p": 1}, {}, format_time(NOW + 60))
    twice = failed(begun(ended, now_s=NOW + 99, pod_uid="p", name="a/b"), now_s=NOW + 120, pod_uid="p", name="a/b")
    assert (twice.attempts, twice.failures) == (2, {"p": 2})


def test_what_was_left_under_way_for_an_hour_has_failed() -> None:
    left = begun(None, now_s=NOW, pod_uid="p", name="a/b")
    again = begun(left, now_s=NOW + UNDER_WAY_FOR_S, pod_uid="p", name="a/b")
    assert (again.attempts, again.under_way) == (1, {"p": format_time(NOW + UNDER_WAY_FOR_S)})


def test_pods_of_one_owner_are_told_apart() -> None:
    """What helps one of them does not make up for another that is still pending, and no longer counts for one that has gone."""
    kept = None
    for uid in ("a", "b", "gone"):
        kept = failed(begun(kept, now_s=NOW, pod_uid=uid, name=f"a/{uid}"), now_s=NOW, pod_uid=uid, name=f"a/{uid}")
    kept = begun(kept, now_s=NOW, pod_uid="c", name="a/c")
    assert kept is not None and kept.attempts == 3
    kept = helped(kept, now_s=NOW, pod_uid="b", name="a/b", pending={"a", "c"})
    assert (kept.attempts, kept.failures, list(kept.under_way)) == (1, {"a": 1}, ["c"])
    left = called_off(kept, now_s=NOW, pod_uid="c")
    assert left is not None and (left.attempts, left.under_way) == (1, {})
    kept = helped(left, now_s=NOW, pod_uid="a", name="a/a", pending=())
    assert (kept.attempts, list(kept.rescued)) == (0, ["b", "a"])
    assert called_off(None, now_s=NOW, pod_uid="a") is None


def rescued(kept: Attempt | None, pod: str, *, at_s: float = NOW) -> Attempt:
    under_way = begun(kept, now_s=at_s, pod_uid=pod, name="a/b")
    return helped(under_way, now_s=at_s, pod_uid=pod, name="a/b", pending=())


def later(kept: Attempt | None, after_s: float) -> Attempt | None:
    """The entry as it is read after so many seconds."""
    assert kept is not None
    return read_attempts({"owner": kept.to_text()}, now_s=NOW + after_s).get("owner")


def test_pod_that_loses_its_node_soon_after_its_rescue_is_a_failed_attempt() -> None:
    kept = without_lost(rescued(None, "a"), now_s=NOW + 60, living={"b"})
    assert kept is not None and (kept.attempts, list(kept.lost), kept.rescued) == (1, ["a"], {})
    reason = may_try(kept, now_s=NOW + 60, max_attempts=3, pod_uid="b")
    assert reason is not None and reason.code == "backoff"


def test_successes_do_not_clear_the_count_of_lost_nodes() -> None:
    kept: Attempt | None = None
    for number in range(3):
        kept = without_lost(rescued(kept, f"p{number}", at_s=NOW + number), now_s=NOW + number, living=())
    assert kept is not None and (kept.attempts, kept.under_way) == (3, {})
    reason = may_try(later(kept, 3000), now_s=NOW + 3000, max_attempts=3, pod_uid="p3")
    assert reason is not None and reason.code == "attempts_used_up"


def test_rescue_that_lasts_ten_minutes_clears_the_count_of_lost_nodes() -> None:
    lost = without_lost(rescued(None, "a"), now_s=NOW + 5, living=())
    kept = rescued(lost, "b", at_s=NOW + 10)
    assert later(kept, LASTS_S + 9) == kept
    assert later(kept, LASTS_S + 10) is None
    lost_again = without_lost(kept, now_s=NOW + 20, living=())
    found = later(lost_again, LASTS_S + 30)
    assert found is not None and found.attempts == 2


def test_pods_that_keep_their_node_are_no_failure_for_their_siblings() -> None:
    """Five pods of one DaemonSet are rescued one after the other."""
    kept = rescued(rescued(None, "a"), "b")
    assert without_lost(kept, now_s=NOW + 5, living={"a", "b", "c"}) == kept
    assert without_lost(None, now_s=NOW, living=()) is None


def test_rescue_that_was_left_under_way_fails_if_its_pod_is_gone() -> None:
    left = begun(None, now_s=NOW, pod_uid="a", name="a/b")
    kept = without_lost(left, now_s=NOW + 5, living={"b"})
    assert kept is not None and (kept.attempts, kept.under_way, list(kept.lost)) == (1, {}, ["a"])
    assert without_lost(left, now_s=NOW + 5, living={"a"}) == left


def test_victims_are_kept_for_as_long_as_the_rescue_is_under_way() -> None:
    record = VictimRecord("app", "web", "uid", "n", 0, 1, "lower_priority", "its priority is lower")
    kept = evicting(begun(None, now_s=NOW, pod_uid="a", name="a/b"), pod_uid="a", victims=[record])
    read = later(kept, 5)
    assert read is not None and read.victims == {"a": (record,)}
    assert helped(kept, now_s=NOW, pod_uid="a", name="a/b", pending=()).victims == {}
    assert failed(kept, now_s=NOW, pod_uid="a", name="a/b").victims == {}
    assert begun(kept, now_s=NOW + 1, pod_uid="b", name="a/c").victims == {"a": (record,)}


def test_the_failures_of_countless_pods_do_not_fill_the_map() -> None:
    kept = None
    for number in range(2 * MOST_PODS):
        kept = failed(kept, now_s=NOW, pod_uid=f"p{number}", name="a/b")
    assert kept is not None and kept.attempts == len(kept.failures) == MOST_PODS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        '{"attempts":"many"}',
        GOOD.replace("1,", "0,", 1),
        GOOD.replace("1,", "2,", 1),
        GOOD.replace(":1}", ":-1}").replace("1,", "-1,", 1),
        GOOD.replace('"under_way":{}', '"under_way":{"q":"soon"}'),
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
    data = {"good": GOOD, "old": entry(ago_s=KEPT_FOR_S).to_text()}
    assert changes({"good": GOOD}, "other", None, now_s=NOW) == {}
    new = entry(2)
    assert changes(data, "other", new, now_s=NOW) == {"old": None, "other": new.to_text()}
    assert changes({"good": GOOD}, "good", None, now_s=NOW) == {"good": None}
    assert changes(None, "good", entry(), now_s=NOW) == {"good": entry().to_text()}


def test_the_oldest_give_way() -> None:
    data = {f"owner-{number}": entry(ago_s=number).to_text() for number in range(MOST_ENTRIES)}
    wanted = changes(data, "new", entry(), now_s=NOW)
    assert wanted == {f"owner-{MOST_ENTRIES - 1}": None, "new": entry().to_text()}
