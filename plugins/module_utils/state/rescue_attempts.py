# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The attempts to rescue the pods of one owner, and the time of the next attempt.

They are kept as small JSON texts, one for each owner. Other processes read them and people may edit them. The times are those of the API
server. Tenants choose the text of an owner reference, so a key is a hash of it.
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from collections.abc import Collection, Iterable, Mapping

from ..model.api.pod import Pod
from ..model.backoff import Backoff
from ..model.codec import DecodeError, Struct, decode_json, encode_json, field, replace
from ..model.reason import Reason
from ..model.values.timestamps import format_time, parse_time
from .restart_outcome import FUTURE_TOLERANCE_S

PREFIX = "attempt."
_KEY = re.compile(re.escape(PREFIX) + "[0-9a-f]{64}")

BACKOFF = Backoff(30, 3600)
"""The time between two rescues for one owner."""
UNDER_WAY_FOR_S = 2 * 3600
"""The longest duration of a rescue.

A rescue that has not ended by then was abandoned, or a program that crashes during it starts it repeatedly.
"""
KEPT_FOR_S = 7 * 24 * 3600
MAX_ENTRIES = 1000
MAX_BYTES = 384 * 1024
"""Bytes of all entries with their keys. A ConfigMap holds 1 MiB."""
MAX_ENTRY_BYTES = 128 * 1024
"""Bytes of one entry."""
MAX_PODS = 50
"""The number of pods of one owner whose failures are counted. The oldest ones are dropped."""
LASTS_S = 600
"""A rescue has succeeded if its pod keeps its node for this time."""
LOST, KEPT, COMPLETED = "lost", "kept", "completed"
"""The results of ``record_result``."""


class VictimRecord(Struct, frozen=True):
    """A pod that was evicted, or is evicted next. ``node`` is its node. ``code`` and ``text`` are the reason why it was selected."""

    namespace: str
    name: str
    uid: str
    node: str
    priority: int
    grace_period: int
    code: str
    text: str


class AttemptRecord(Struct, frozen=True):
    """The entry of one owner. Several pods of the owner may be rescued at the same time.

    - ``attempts``: the number of failed rescues in a row
    - ``failures``: the failed rescues without a node, by the pod's uid
    - ``lost``: the pods that were bound and lost their node soon, with the time at which this was detected
    - ``time``: RFC 3339, the end of the last failure
    - ``under_way``: the start of the rescue of a pod, by its uid
    - ``victims``: the pods that are evicted for it
    - ``rescued``: the time at which a pod was bound, by its uid, as long as it may still lose its node
    - ``name``: namespace and name of the last pod, for people
    """

    attempts: int
    time: str
    name: str
    failures: dict[str, int] = field(default_factory=dict)
    under_way: dict[str, str] = field(default_factory=dict)
    victims: dict[str, tuple[VictimRecord, ...]] = field(default_factory=dict)
    rescued: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the text that is stored."""
        return encode_json(self).decode()


class ConfigMapPatch(t.NamedTuple):
    """A patch of the stored data.

    In ``changes`` None removes a key. ``dropped``: names of entries that are cut or removed for lack of space.
    """

    changes: dict[str, t.Optional[str]]
    dropped: list[str]


def attempt_key(pod: Pod) -> str:
    """Return the key of the pod's owner, which is its controller or the pod itself. Owners of different namespaces never share a key."""
    metadata = pod.metadata
    controller = metadata.controller
    identity = ("pod", metadata.uid) if controller is None else ("controller", controller.uid)
    return PREFIX + hashlib.sha256("\n".join((metadata.namespace, *identity)).encode(errors="replace")).hexdigest()


def existing_key(entries: Mapping[str, AttemptRecord], pod_uid: str, key: str) -> str:
    """Return the key of the entry that already counts rescues of this pod, otherwise ``key``.

    The two can differ, because an owner reference can be changed later.
    """
    if key in entries and _knows(entries[key], pod_uid):
        return key
    return next((known for known, entry in entries.items() if _knows(entry, pod_uid)), key)


def read_attempts(data: Mapping[str, str] | None, *, now_s: float) -> dict[str, AttemptRecord]:
    """Return the entries by key. An entry that cannot be parsed, has a time far in the future, or is too old counts as absent."""
    found = {key: _read(text, now_s) for key, text in (data or {}).items() if _KEY.fullmatch(key)}
    return {key: attempt for key, attempt in found.items() if attempt is not None}


def attempt_violation(entry: AttemptRecord | None, *, now_s: float, max_attempts: int, pod_uid: str) -> t.Optional[Reason]:
    """Return the reason why no rescue may start now for a pod of the owner, or None if it may start.

    A rescue of the same pod that is under way may continue. Rescues of other pods do not count before they have failed. After n failures in
    a row the next attempt has to wait 30 s · 2^(n-1), at most an hour.
    """
    if entry is None or not entry.attempts or pod_uid in _fresh(entry, now_s):
        return None
    if entry.attempts >= max_attempts:
        return Reason("attempts_used_up", f"{entry.attempts} rescues did not help, the last at {entry.time} for pod {entry.name}")
    left_s = parse_time(entry.time) + BACKOFF.pause_s(entry.attempts) - now_s
    if left_s <= 0:
        return None
    text = f"failed at {entry.time}, attempts {entry.attempts}; next attempt in {int(left_s) + 1} s at the earliest"
    return Reason("backoff", text)


def start(entry: AttemptRecord | None, *, now_s: float, pod_uid: str, name: str, victims: t.Sequence[VictimRecord] = ()) -> AttemptRecord:
    """Record that a rescue of the pod is under way. Writing it twice changes nothing.

    ``victims``: the pods that were evicted for the pod, and the one that is evicted next. A rescue that has been under way for two hours is
    recorded as a failure first.
    """
    entry = entry or AttemptRecord(attempts=0, time=format_time(now_s), name=name)
    fresh = _fresh(entry, now_s)
    if pod_uid in entry.under_way and pod_uid not in fresh:
        entry = record_failure(entry, now_s=now_s, pod_uid=pod_uid, name=name)
    under_way = {**fresh, pod_uid: fresh.get(pod_uid, format_time(now_s))}
    return replace(entry, name=name, under_way=under_way, victims={**entry.victims, pod_uid: tuple(victims)})


def record_failure(entry: AttemptRecord | None, *, now_s: float, pod_uid: str, name: str) -> AttemptRecord:
    """Record that the rescue has ended and the pod is not bound."""
    entry = entry or AttemptRecord(attempts=0, time=format_time(now_s), name=name)
    failures = _newest({**entry.failures, pod_uid: entry.failures.get(pod_uid, 0) + 1})
    return _ended(replace(entry, failures=failures, time=format_time(now_s), name=name), [pod_uid], now_s)


def record_success(entry: AttemptRecord | None, *, now_s: float, pod_uid: str, name: str, pending: Collection[str]) -> AttemptRecord:
    """Record that the pod is bound.

    Its failures are removed, and the failures of pods that are no longer ``pending``. Lost nodes still count.
    """
    entry = entry or AttemptRecord(attempts=0, time=format_time(now_s), name=name)
    failures = {uid: number for uid, number in entry.failures.items() if uid != pod_uid and uid in pending}
    rescued = _newest({**entry.rescued, pod_uid: format_time(now_s)})
    return _ended(replace(entry, failures=failures, rescued=rescued), [pod_uid], now_s)


def cancel(entry: AttemptRecord | None, *, now_s: float, pod_uid: str) -> AttemptRecord | None:
    """Record that the rescue has ended without counting it: the pod was deleted, or the node was not available.

    Return None if the entry is no longer needed.
    """
    return _if_of_use(_ended(entry, [pod_uid], now_s)) if entry is not None else None


def record_result(entry: AttemptRecord | None, result: str, *, now_s: float, pod_uid: str) -> AttemptRecord | None:
    """Record the result of a rescue after the pod was bound. Return None if the entry is no longer needed.

    LOST: the pod has lost its node soon, which counts as a failed attempt. KEPT: it has kept its node long enough, and nodes that were lost
    before its rescue no longer count. COMPLETED: it has finished or was deleted by its owner, which counts as neither.
    """
    if entry is None or pod_uid not in entry.rescued:
        return entry
    lost, time = entry.lost, entry.time
    if result == LOST:
        time = format_time(now_s)
        lost = _newest({**lost, pod_uid: time})
    elif result == KEPT:
        since_s = parse_time(entry.rescued[pod_uid])
        lost = {uid: lost_at for uid, lost_at in lost.items() if parse_time(lost_at) > since_s}
    rescued = {uid: bound_at for uid, bound_at in entry.rescued.items() if uid != pod_uid}
    return _if_of_use(_ended(replace(entry, lost=lost, rescued=rescued, time=time), (), now_s))


def rescue_times_s(entries: Iterable[AttemptRecord]) -> dict[str, float]:
    """Return the time of the binding of each rescued pod that may still lose its node, by uid, in seconds since the epoch."""
    return {uid: parse_time(time) for entry in entries for uid, time in entry.rescued.items()}


def configmap_patch(data: Mapping[str, str] | None, key: str, entry: AttemptRecord | None, *, now_s: float) -> ConfigMapPatch:
    """Return the patch of ``data`` that writes ``entry`` and removes everything that is no longer needed.

    Entries that cannot be parsed or are too old are not needed. If there are more than ``MAX_ENTRIES`` entries or ``MAX_BYTES`` bytes,
    the oldest entries are dropped.
    """
    dropped: list[str] = []
    texts: dict[str, str] = {}
    left = MAX_BYTES
    if entry is not None:
        fitting = _cut(entry)
        if fitting is not entry:
            dropped.append(entry.name)
        texts[key] = fitting.to_text()
        left -= size_of(key, texts[key])
    kept = {other: attempt for other, attempt in read_attempts(data, now_s=now_s).items() if other != key}
    for other in sorted(kept, key=lambda other: _newest_s(kept[other]), reverse=True):
        text = (data or {})[other]
        left -= size_of(other, text)
        if left < 0 or len(texts) >= MAX_ENTRIES:
            dropped.append(kept[other].name)
        else:
            texts[other] = text
    wanted: dict[str, t.Optional[str]] = dict.fromkeys(data or {})
    wanted.update(texts)
    return ConfigMapPatch({known: text for known, text in wanted.items() if (data or {}).get(known) != text}, dropped)


def size_of(key: str, text: str) -> int:
    """Return the bytes that the API server counts for an entry of a ConfigMap."""
    return len(key.encode(errors="replace")) + len(text.encode(errors="replace"))


def _newest_s(entry: AttemptRecord) -> float:
    """Return the newest time in the entry. The start of a rescue that is under way counts too."""
    return max(map(parse_time, (entry.time, *entry.under_way.values(), *entry.rescued.values(), *entry.lost.values())))


def _knows(entry: AttemptRecord, pod_uid: str) -> bool:
    return any(pod_uid in pods for pods in (entry.under_way, entry.failures, entry.rescued, entry.lost))


def _cut(entry: AttemptRecord) -> AttemptRecord:
    """Return the entry within ``MAX_ENTRY_BYTES``. First the oldest victims are removed, then the oldest rescues under way."""
    while len(entry.to_text()) > MAX_ENTRY_BYTES and (entry.victims or entry.under_way):
        if entry.victims:
            entry = replace(entry, victims=dict(list(entry.victims.items())[1:]))
        else:
            entry = replace(entry, under_way=dict(list(entry.under_way.items())[len(entry.under_way) // 10 + 1 :]))
    return entry


def _fresh(entry: AttemptRecord, now_s: float) -> dict[str, str]:
    """Return the rescues that are under way and have not exceeded ``UNDER_WAY_FOR_S``."""
    return {uid: time for uid, time in entry.under_way.items() if parse_time(time) + UNDER_WAY_FOR_S > now_s}


def _newest(entries: dict[str, t.Any]) -> dict[str, t.Any]:
    return dict(list(entries.items())[-MAX_PODS:])


def _ended(entry: AttemptRecord, uids: Collection[str], now_s: float) -> AttemptRecord:
    """Return the entry without these pods in ``under_way``, and with ``attempts`` counted again."""
    under_way = {uid: time for uid, time in _fresh(entry, now_s).items() if uid not in uids}
    victims = {uid: records for uid, records in entry.victims.items() if uid in under_way}
    attempts = sum(entry.failures.values()) + len(entry.lost)
    return replace(entry, under_way=under_way, victims=victims, attempts=attempts)


def _if_of_use(entry: AttemptRecord) -> AttemptRecord | None:
    return entry if entry.attempts or entry.under_way or entry.rescued else None


def _read(text: str, now_s: float) -> AttemptRecord | None:
    try:
        attempt = decode_json(AttemptRecord, text)
        dated = (attempt.under_way, attempt.rescued, attempt.lost)
        times = [parse_time(time) for time in (attempt.time, *(time for entries in dated for time in entries.values()))]
    except (DecodeError, ValueError, RecursionError):
        return None
    counted = attempt.attempts >= 0 and all(number > 0 for number in attempt.failures.values())
    if not counted or attempt.attempts != sum(attempt.failures.values()) + len(attempt.lost):
        return None
    if not all(now_s - KEPT_FOR_S < time_s <= now_s + FUTURE_TOLERANCE_S for time_s in times):
        return None
    return _if_of_use(attempt)
