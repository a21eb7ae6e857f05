# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How often a rescue was tried for the pods of one owner, and when the next one may be.

Kept as small JSON texts, one for each owner's uid, that other processes read and people may edit; times are those of the API server.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from ..model.reasons import Reason
from ..model.timestamps import format_time, parse_time
from ..model.wire import Struct, WireError, decode_json, encode_json, field, replace
from . import hold_records
from .outcome import FUTURE_TOLERANCE_S

FIRST_PAUSE_S = 30
LONGEST_PAUSE_S = 3600
MOST_DOUBLINGS = 7
"""More of them than it takes from the first pause to the longest."""
UNDER_WAY_FOR_S = 3600
"""What has not ended by then was given up, or is begun anew by a program that dies of it again and again."""
KEPT_FOR_S = 7 * 24 * 3600
OTHER_RECORDS = (hold_records.PREFIX,)
"""Keys of the same ConfigMap that begin so are no attempts: whoever writes them keeps them in order."""
MOST_ENTRIES = 1000
"""A ConfigMap holds 1 MiB."""
MOST_PODS = 50
"""Pods of one owner whose failures are told apart; those of further ones count no more than these."""


class Attempt(Struct, frozen=True):
    """What is kept for one owner, of which several pods may be rescued at a time.

    ``attempts``: how many in a row came to nothing; ``failures`` has them by the pod's uid. ``time``: RFC 3339, when the last of them
    ended. ``under_way``: when the rescue of a pod was begun, by its uid. ``name``: namespace and name of the last pod, for people.
    """

    attempts: int
    time: str
    name: str
    failures: dict[str, int] = field(default_factory=dict)
    under_way: dict[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """As it is kept."""
        return encode_json(self).decode()


def read_attempts(data: Mapping[str, str] | None, *, now_s: float) -> dict[str, Attempt]:
    """What is kept, by owner; what cannot be read, lies far in the future, or is old, counts as absent."""
    found = {owner: _read(text, now_s) for owner, text in (data or {}).items() if not owner.startswith(OTHER_RECORDS)}
    return {owner: attempt for owner, attempt in found.items() if attempt is not None}


def may_try(entry: Attempt | None, *, now_s: float, max_attempts: int, pod_uid: str) -> t.Optional[Reason]:
    """Why no rescue may be tried now for a pod of the owner; None where it may.

    One that is under way for the same pod goes on, and those of other pods do not count before they have failed. After n failures in a
    row the next one has to wait 30 s · 2^(n-1), an hour at most.
    """
    if entry is None or not entry.attempts or pod_uid in _fresh(entry, now_s):
        return None
    if entry.attempts >= max_attempts:
        return Reason("attempts_used_up", f"{entry.attempts} rescues did not help, the last at {entry.time} for pod {entry.name}")
    wait_s = min(FIRST_PAUSE_S * 2 ** min(entry.attempts - 1, MOST_DOUBLINGS), LONGEST_PAUSE_S)
    left_s = parse_time(entry.time) + wait_s - now_s
    if left_s <= 0:
        return None
    text = f"failed at {entry.time}, attempts {entry.attempts}; next attempt in {int(left_s) + 1} s at the earliest"
    return Reason("backoff", text)


def begun(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str) -> Attempt:
    """A rescue is under way for the pod; writing it twice changes nothing. One that was left so for an hour has failed before."""
    entry = entry or Attempt(attempts=0, time=format_time(now_s), name=name)
    fresh = _fresh(entry, now_s)
    if pod_uid in fresh:
        return entry
    if pod_uid in entry.under_way:
        entry = failed(entry, now_s=now_s, pod_uid=pod_uid, name=name)
    return replace(entry, name=name, under_way={**fresh, pod_uid: format_time(now_s)})


def failed(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str) -> Attempt:
    """The rescue ended without the pod being bound."""
    known = entry.failures if entry is not None else {}
    failures = dict(list({**known, pod_uid: known.get(pod_uid, 0) + 1}.items())[-MOST_PODS:])
    under_way = {uid: time for uid, time in (_fresh(entry, now_s) if entry is not None else {}).items() if uid != pod_uid}
    return Attempt(attempts=sum(failures.values()), time=format_time(now_s), name=name, failures=failures, under_way=under_way)


def helped(entry: Attempt | None, *, now_s: float, pod_uid: str, pending: Collection[str]) -> Attempt | None:
    """The pod is bound: its failures are forgotten, and those of pods that are no longer ``pending``; None where nothing is left."""
    if entry is None:
        return None
    failures = {uid: number for uid, number in entry.failures.items() if uid != pod_uid and uid in pending}
    return _without(replace(entry, failures=failures, attempts=sum(failures.values())), pod_uid, now_s)


def called_off(entry: Attempt | None, *, now_s: float, pod_uid: str) -> Attempt | None:
    """Nothing has come of the rescue, and nothing could have: the pod was deleted, or the node was not to be had."""
    return _without(entry, pod_uid, now_s) if entry is not None else None


def changes(data: Mapping[str, str] | None, owner: str, entry: Attempt | None, *, now_s: float) -> dict[str, t.Optional[str]]:
    """What to write where ``data`` is kept, so that ``entry`` is, and what is no longer of use is not; None takes a key away.

    Of use is neither what cannot be read, nor what is old; nor more than ``MOST_ENTRIES``.
    """
    kept = {key: attempt for key, attempt in read_attempts(data, now_s=now_s).items() if key != owner}
    newest = sorted(kept, key=lambda key: parse_time(kept[key].time), reverse=True)[: MOST_ENTRIES - 1]
    wanted: dict[str, t.Optional[str]] = {key: None for key in data or {} if key not in newest and not key.startswith(OTHER_RECORDS)}
    text = entry.to_text() if entry is not None else None
    if text is not None:
        wanted[owner] = text
    return {key: value for key, value in wanted.items() if (data or {}).get(key) != value}


def _fresh(entry: Attempt, now_s: float) -> dict[str, str]:
    """What is under way and was not given up."""
    return {uid: time for uid, time in entry.under_way.items() if parse_time(time) + UNDER_WAY_FOR_S > now_s}


def _without(entry: Attempt, pod_uid: str, now_s: float) -> Attempt | None:
    under_way = {uid: time for uid, time in _fresh(entry, now_s).items() if uid != pod_uid}
    return replace(entry, under_way=under_way) if under_way or entry.attempts else None


def _read(text: str, now_s: float) -> Attempt | None:
    try:
        attempt = decode_json(Attempt, text)
        times = [parse_time(time) for time in (attempt.time, *attempt.under_way.values())]
    except (WireError, ValueError):
        return None
    counted = attempt.attempts >= 0 and all(number > 0 for number in attempt.failures.values())
    if not counted or attempt.attempts != sum(attempt.failures.values()) or not (attempt.attempts or attempt.under_way):
        return None
    return attempt if all(now_s - KEPT_FOR_S < time_s <= now_s + FUTURE_TOLERANCE_S for time_s in times) else None
