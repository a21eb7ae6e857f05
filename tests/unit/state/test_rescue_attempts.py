# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The number of rescue attempts and the pauses between them are limited, and the stored texts keep the counts."""

from __future__ import annotations

import re

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import OwnerReference
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import (
    COMPLETED,
    KEPT,
    KEPT_FOR_S,
    LOST,
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_PODS,
    PREFIX,
    UNDER_WAY_FOR_S,
    AttemptRecord,
    VictimRecord,
    attempt_key,
    attempt_violation,
    cancel,
    configmap_patch,
    existing_key,
    read_attempts,
    record_failure,
    record_result,
    record_success,
    size_of,
    start,
)

from tests.unit.support.objects import NOW, pending


def dns(owner: str = "", *, namespace: str = "kube-system", uid: str = "u", kind: str = "ReplicaSet") -> Pod:
    """``owner``: the uid of its controller."""
    pod = pending(name="dns", owner="", namespace=namespace, metadata={"uid": uid})
    references = (OwnerReference(kind=kind, name="x", uid=owner, controller=True),) if owner else None
    return replace(pod, metadata=replace(pod.metadata, owner_references=references))


def key(number: object) -> str:
    return attempt_key(dns(str(number)))


OWNER, GOOD_KEY = key("owner"), key("good")
GOOD = '{"attempts":1,"failures":{"p":1},"name":"kube-system/dns","time":"2026-01-01T00:00:00Z","under_way":{}}'


def entry(attempts: int = 1, *, ago_s: float = 0, pod: str = "old", under_way: dict[str, float] | None = None) -> AttemptRecord:
    times = {uid: format_time(NOW - ago_s) for uid, ago_s in (under_way or {}).items()}
    failures = {pod: attempts} if attempts else {}
    return AttemptRecord(attempts=attempts, time=format_time(NOW - ago_s), name="kube-system/dns", failures=failures, under_way=times)


def refusal(kept: AttemptRecord | None, max_attempts: int = 30, pod_uid: str = "new") -> str | None:
    reason = attempt_violation(kept, now_s=NOW, max_attempts=max_attempts, pod_uid=pod_uid)
    return reason.code if reason is not None else None


def test_the_first_attempt_is_free() -> None:
    assert refusal(None) is None


@pytest.mark.parametrize(
    ("attempts", "wait_s"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 960), (7, 1920), (8, 3600), (9, 3600), (29, 3600)]
)
def test_the_pause_doubles_up_to_an_hour(attempts: int, wait_s: int) -> None:
    assert refusal(entry(attempts, ago_s=wait_s - 1)) == "backoff"
    assert refusal(entry(attempts, ago_s=wait_s)) is None


def test_used_up_attempts_stay_used_up_until_the_record_expires() -> None:
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
def test_what_is_under_way_continues_and_is_no_failure_yet(kept: AttemptRecord, pod_uid: str, expected: str | None) -> None:
    assert refusal(kept, 3, pod_uid) == expected


def test_the_refusal_has_the_time_until_the_next_attempt() -> None:
    reason = attempt_violation(entry(1, ago_s=10), now_s=NOW, max_attempts=3, pod_uid="new")
    assert reason is not None and "next attempt in 21 s" in reason.text


def test_to_begin_twice_counts_once() -> None:
    first = start(None, now_s=NOW, pod_uid="p", name="a/b")
    again = start(first, now_s=NOW + 40, pod_uid="p", name="a/b")
    assert (first.attempts, list(first.under_way), again) == (0, ["p"], first)
    ended = record_failure(again, now_s=NOW + 60, pod_uid="p", name="a/b")
    assert (ended.attempts, ended.failures, ended.under_way, ended.time) == (1, {"p": 1}, {}, format_time(NOW + 60))
    twice = record_failure(start(ended, now_s=NOW + 99, pod_uid="p", name="a/b"), now_s=NOW + 120, pod_uid="p", name="a/b")
    assert (twice.attempts, twice.failures) == (2, {"p": 2})


def test_rescue_that_is_under_way_for_two_hours_has_failed() -> None:
    left = start(None, now_s=NOW, pod_uid="p", name="a/b")
    again = start(left, now_s=NOW + UNDER_WAY_FOR_S, pod_uid="p", name="a/b")
    assert (again.attempts, again.under_way) == (1, {"p": format_time(NOW + UNDER_WAY_FOR_S)})


def test_failures_of_pods_of_one_owner_are_counted_separately() -> None:
    """A success for one pod does not clear the failures of another pending pod. It clears those of a deleted pod."""
    kept = None
    for uid in ("a", "b", "gone"):
        kept = record_failure(start(kept, now_s=NOW, pod_uid=uid, name=f"a/{uid}"), now_s=NOW, pod_uid=uid, name=f"a/{uid}")
    kept = start(kept, now_s=NOW, pod_uid="c", name="a/c")
    assert kept is not None and kept.attempts == 3
    kept = record_success(kept, now_s=NOW, pod_uid="b", name="a/b", pending={"a", "c"})
    assert (kept.attempts, kept.failures, list(kept.under_way)) == (1, {"a": 1}, ["c"])
    left = cancel(kept, now_s=NOW, pod_uid="c")
    assert left is not None and (left.attempts, left.under_way) == (1, {})
    kept = record_success(left, now_s=NOW, pod_uid="a", name="a/a", pending=())
    assert (kept.attempts, list(kept.rescued)) == (0, ["b", "a"])
    assert cancel(None, now_s=NOW, pod_uid="a") is None


def rescued(kept: AttemptRecord | None, pod: str, *, at_s: float = NOW) -> AttemptRecord:
    under_way = start(kept, now_s=at_s, pod_uid=pod, name="a/b")
    return record_success(under_way, now_s=at_s, pod_uid=pod, name="a/b", pending=())


def later(kept: AttemptRecord | None, after_s: float) -> AttemptRecord | None:
    """The entry as it is read after so many seconds."""
    assert kept is not None
    return read_attempts({OWNER: kept.to_text()}, now_s=NOW + after_s).get(OWNER)


def test_pod_that_loses_its_node_soon_after_its_rescue_is_a_failed_attempt() -> None:
    kept = record_result(rescued(None, "a"), LOST, now_s=NOW + 60, pod_uid="a")
    assert kept is not None and (kept.attempts, list(kept.lost), kept.rescued) == (1, ["a"], {})
    reason = attempt_violation(kept, now_s=NOW + 60, max_attempts=3, pod_uid="b")
    assert reason is not None and reason.code == "backoff"
    assert record_result(kept, LOST, now_s=NOW + 90, pod_uid="a") == kept, "writing it twice changes nothing"


def test_successes_do_not_clear_the_count_of_lost_nodes() -> None:
    kept: AttemptRecord | None = None
    for number in range(3):
        kept = record_result(rescued(kept, f"p{number}", at_s=NOW + number), LOST, now_s=NOW + number, pod_uid=f"p{number}")
    assert kept is not None and (kept.attempts, kept.under_way) == (3, {})
    reason = attempt_violation(later(kept, 3000), now_s=NOW + 3000, max_attempts=3, pod_uid="p3")
    assert reason is not None and reason.code == "attempts_used_up"


def test_time_alone_makes_no_rescue_last() -> None:
    """Only a pod that was seen on its node after ten minutes has lasted."""
    before = record_result(rescued(None, "a"), LOST, now_s=NOW + 5, pod_uid="a")
    kept = rescued(before, "b", at_s=NOW + 10)
    assert later(kept, 24 * 3600) == kept


def test_rescue_that_lasts_clears_the_count_of_nodes_that_were_lost_before_it() -> None:
    before = record_result(rescued(None, "a"), LOST, now_s=NOW + 5, pod_uid="a")
    kept = rescued(before, "b", at_s=NOW + 10)
    assert record_result(kept, KEPT, now_s=NOW + 700, pod_uid="b") is None
    after = record_result(rescued(kept, "c", at_s=NOW + 20), LOST, now_s=NOW + 30, pod_uid="c")
    assert after is not None and after.attempts == 2
    found = record_result(after, KEPT, now_s=NOW + 700, pod_uid="b")
    assert found is not None and (found.attempts, list(found.lost), found.rescued) == (1, ["c"], {})


def test_pod_that_finished_neither_fails_nor_clears_the_count() -> None:
    before = record_result(rescued(None, "a"), LOST, now_s=NOW + 5, pod_uid="a")
    found = record_result(rescued(before, "b"), COMPLETED, now_s=NOW + 20, pod_uid="b")
    assert found is not None and (found.attempts, found.rescued) == (1, {})
    assert record_result(rescued(None, "b"), COMPLETED, now_s=NOW + 20, pod_uid="b") is None


@pytest.mark.parametrize("result", [LOST, KEPT, COMPLETED])
def test_only_rescued_pods_are_judged(result: str) -> None:
    kept = rescued(None, "a")
    assert record_result(kept, result, now_s=NOW, pod_uid="b") == kept
    assert record_result(None, result, now_s=NOW, pod_uid="a") is None


@pytest.mark.parametrize("uid", ["attempt.x", "a/b", "..", "", " ", "\n", "\x00", "x" * 100_000, "\ud800", "\u202e", OWNER])
def test_text_of_an_owner_reference_is_no_part_of_a_key(uid: str) -> None:
    found = attempt_key(dns(uid))
    assert re.fullmatch(r"attempt\.[0-9a-f]{64}", found)
    assert configmap_patch({}, found, entry(), now_s=NOW).changes == {found: entry().to_text()}


def test_owners_of_different_namespaces_share_no_key() -> None:
    keys = {attempt_key(dns("o")), attempt_key(dns("o", namespace="app")), attempt_key(dns("o", namespace="")), attempt_key(dns(uid="o"))}
    assert len(keys) == 4
    assert attempt_key(dns("o")) == attempt_key(dns("o", uid="another", kind="Job")), "the kind is free text as well"


def test_attempts_stay_with_the_pod_when_its_owner_reference_changes() -> None:
    entries = {
        key("a"): record_failure(None, now_s=NOW, pod_uid="p", name="a/b"),
        key("b"): start(None, now_s=NOW, pod_uid="q", name="a/b"),
    }
    entries[key("c")] = rescued(None, "r")
    assert [existing_key(entries, uid, key("new")) for uid in ("p", "q", "r", "s")] == [key("a"), key("b"), key("c"), key("new")]
    entries[key("new")] = record_failure(None, now_s=NOW, pod_uid="p", name="a/b")
    assert existing_key(entries, "p", key("new")) == key("new")


def test_victims_are_kept_for_as_long_as_the_rescue_is_under_way() -> None:
    record = VictimRecord("app", "web", "uid", "n", 0, 1, "lower_priority", "its priority is lower")
    kept = start(None, now_s=NOW, pod_uid="a", name="a/b", victims=[record])
    read = later(kept, 5)
    assert read is not None and read.victims == {"a": (record,)}
    assert record_success(kept, now_s=NOW, pod_uid="a", name="a/b", pending=()).victims == {}
    assert record_failure(kept, now_s=NOW, pod_uid="a", name="a/b").victims == {}
    assert start(kept, now_s=NOW + 1, pod_uid="b", name="a/c").victims["a"] == (record,)


def test_the_failures_of_countless_pods_do_not_fill_the_map() -> None:
    kept = None
    for number in range(2 * MAX_PODS):
        kept = record_failure(kept, now_s=NOW, pod_uid=f"p{number}", name="a/b")
    assert kept is not None and kept.attempts == len(kept.failures) == MAX_PODS


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
    data = {key("broken"): text, GOOD_KEY: GOOD}
    assert list(read_attempts(data, now_s=NOW)) == [GOOD_KEY]
    assert configmap_patch(data, OWNER, None, now_s=NOW).changes == {key("broken"): None}


@pytest.mark.parametrize(
    "other", ["good", "4f1c6f0e-0d0a-4c5e-9b1e-5a1f0f6f9a77", PREFIX, PREFIX + "good", GOOD_KEY.upper(), GOOD_KEY + "0"]
)
def test_keys_of_earlier_versions_are_not_read_and_dropped(other: str) -> None:
    data = {other: GOOD}
    assert read_attempts(data, now_s=NOW) == {}
    assert configmap_patch(data, OWNER, None, now_s=NOW) == ({other: None}, [])


def test_clocks_may_differ_a_little() -> None:
    assert GOOD_KEY in read_attempts({GOOD_KEY: GOOD.replace("00:00:00Z", "00:05:00Z")}, now_s=NOW)


def test_only_what_changes_is_written() -> None:
    data = {GOOD_KEY: GOOD, key("old"): entry(ago_s=KEPT_FOR_S).to_text()}
    assert configmap_patch({GOOD_KEY: GOOD}, OWNER, None, now_s=NOW) == ({}, [])
    new = entry(2)
    assert configmap_patch(data, OWNER, new, now_s=NOW) == ({key("old"): None, OWNER: new.to_text()}, [])
    assert configmap_patch({GOOD_KEY: GOOD}, GOOD_KEY, None, now_s=NOW) == ({GOOD_KEY: None}, [])
    assert configmap_patch(None, GOOD_KEY, entry(), now_s=NOW) == ({GOOD_KEY: entry().to_text()}, [])


def test_of_too_many_entries_the_oldest_is_dropped_and_named() -> None:
    data = {key(number): entry(ago_s=number).to_text() for number in range(MAX_ENTRIES)}
    last = key(MAX_ENTRIES - 1)
    data[last] = entry(ago_s=MAX_ENTRIES).to_text().replace("kube-system/dns", "a/oldest")
    assert configmap_patch(data, OWNER, entry(), now_s=NOW) == ({last: None, OWNER: entry().to_text()}, ["a/oldest"])


def large(pods: int, victims: int, *, ago_s: float = 0) -> AttemptRecord:
    """An entry with the longest names."""
    record = VictimRecord("n" * 63, "p" * 253, "u" * 36, "m" * 253, -(2**31), 10, "lower_priority", "x" * 200)
    uids = {f"{number:036}": format_time(NOW - ago_s) for number in range(pods)}
    return AttemptRecord(
        0, format_time(NOW - ago_s), "n" * 63 + "/" + "p" * 253, under_way=uids, victims=dict.fromkeys(uids, (record,) * victims)
    )


def test_all_entries_together_are_bounded_and_the_newest_are_kept() -> None:
    data: dict[str, str] = {}
    for number in range(30):
        written = configmap_patch(data, key(number), large(4, 10, ago_s=30 - number), now_s=NOW)
        merged = {**data, **written.changes}
        data = {known: text for known, text in merged.items() if text is not None}
        assert sum(size_of(known, text) for known, text in data.items()) <= MAX_BYTES and key(number) in data
    assert written.dropped and key(0) not in data and set(read_attempts(data, now_s=NOW)) == set(data)


@pytest.mark.parametrize(("pods", "victims"), [(1, 300), (300, 2), (1500, 0)])
def test_one_entry_is_bounded_and_the_newest_rescues_are_kept(pods: int, victims: int) -> None:
    whole = large(pods, victims)
    written = configmap_patch({}, OWNER, whole, now_s=NOW)
    text = written.changes[OWNER]
    assert text is not None and len(text) <= MAX_ENTRY_BYTES and written.dropped == [whole.name]
    found = read_attempts({OWNER: text}, now_s=NOW)[OWNER]
    assert list(whole.under_way)[-1] in found.under_way


def test_entry_of_a_usual_size_is_kept_whole() -> None:
    whole = large(5, 20)
    assert configmap_patch({}, OWNER, whole, now_s=NOW) == ({OWNER: whole.to_text()}, [])


def test_entry_whose_rescue_is_under_way_is_not_dropped_for_its_old_failure() -> None:
    busy = start(entry(ago_s=24 * 3600), now_s=NOW, pod_uid="p", name="a/busy")
    data = {key(number): entry(ago_s=60).to_text() for number in range(MAX_ENTRIES - 1)}
    written = configmap_patch({**data, GOOD_KEY: busy.to_text()}, OWNER, entry(), now_s=NOW)
    assert GOOD_KEY not in written.changes and written.dropped == ["kube-system/dns"]
