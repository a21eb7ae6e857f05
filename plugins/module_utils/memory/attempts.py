# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How often a rescue was tried for the pods of one owner, and when the next one may be.

Kept as small JSON texts, one for each owner's uid, that other processes read and people may edit; times are those of the API server.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..model.reasons import Reason
from ..model.timestamps import format_time, parse_time
from ..model.wire import Struct, WireError, decode_json, encode_json
from .outcome import FUTURE_TOLERANCE_S

UNDER_WAY, RESCUED, FAILED = "under_way", "rescued", "failed"
RESULTS = (UNDER_WAY, RESCUED, FAILED)

FIRST_PAUSE_S = 30
LONGEST_PAUSE_S = 3600
MOST_DOUBLINGS = 7
"""More of them than it takes from the first pause to the longest."""
UNDER_WAY_FOR_S = 3600
"""What has not ended by then was given up, or is begun anew by a program that dies of it again and again."""
KEPT_FOR_S = 7 * 24 * 3600
MOST_ENTRIES = 1000
"""A ConfigMap holds 1 MiB."""


class Attempt(Struct, frozen=True):
    """What is kept for one owner.

    ``attempts``: those begun, this one included. ``time``: RFC 3339, when it was begun or ended. ``pod``: uid of the pod that it was for.
    ``name``: its namespace and name, for people.
    """

    attempts: int
    time: str
    pod: str
    name: str
    result: str

    def to_text(self) -> str:
        """As it is kept."""
        return encode_json(self).decode()


def read_attempts(data: Mapping[str, str] | None, *, now_s: float) -> dict[str, Attempt]:
    """What is kept, by owner; what cannot be read, lies far in the future, or is old, counts as absent."""
    found = {owner: _read(text, now_s) for owner, text in (data or {}).items()}
    return {owner: attempt for owner, attempt in found.items() if attempt is not None}


def may_try(entry: Attempt | None, *, now_s: float, max_attempts: int, pod_uid: str) -> t.Optional[Reason]:
    """Why no rescue may be tried now for a pod of the owner; None where it may.

    An attempt that is under way for the same pod goes on. After the n-th one the next has to wait 30 s · 2^(n-1), an hour at most.
    """
    if entry is None or _goes_on(entry, now_s=now_s, pod_uid=pod_uid):
        return None
    if entry.attempts >= max_attempts:
        return Reason("attempts_used_up", f"{entry.attempts} rescues did not help, the last at {entry.time} for pod {entry.name}")
    wait_s = min(FIRST_PAUSE_S * 2 ** min(max(0, entry.attempts - 1), MOST_DOUBLINGS), LONGEST_PAUSE_S)
    left_s = parse_time(entry.time) + wait_s - now_s
    if left_s <= 0:
        return None
    text = f"{entry.result} at {entry.time}, attempts {entry.attempts}; next attempt in {int(left_s) + 1} s at the earliest"
    return Reason("backoff", text)


def begun(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str) -> Attempt:
    """One more attempt; the same one where it is under way for the pod already, so that writing it twice counts once."""
    if entry is not None and _goes_on(entry, now_s=now_s, pod_uid=pod_uid):
        return entry
    attempts = 1 + (entry.attempts if entry is not None else 0)
    return Attempt(attempts=attempts, time=format_time(now_s), pod=pod_uid, name=name, result=UNDER_WAY)


def failed(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str) -> Attempt:
    """The attempt ended without the pod being bound."""
    attempts = entry.attempts if entry is not None else 1
    return Attempt(attempts=attempts, time=format_time(now_s), pod=pod_uid, name=name, result=FAILED)


def changes(data: Mapping[str, str] | None, owner: str, entry: Attempt | None, *, now_s: float) -> dict[str, t.Optional[str]]:
    """What to write where ``data`` is kept, so that ``entry`` is, and what is no longer of use is not; None takes a key away.

    Of use is neither what cannot be read, nor what is old, nor what ended well; nor more than ``MOST_ENTRIES``.
    """
    kept = {key: attempt for key, attempt in read_attempts(data, now_s=now_s).items() if attempt.result != RESCUED and key != owner}
    newest = sorted(kept, key=lambda key: parse_time(kept[key].time), reverse=True)[: MOST_ENTRIES - 1]
    wanted: dict[str, t.Optional[str]] = {key: None for key in data or {} if key not in newest}
    text = entry.to_text() if entry is not None and entry.result != RESCUED else None
    if text is not None:
        wanted[owner] = text
    return {key: value for key, value in wanted.items() if (data or {}).get(key) != value}


def _goes_on(entry: Attempt, *, now_s: float, pod_uid: str) -> bool:
    return entry.result == UNDER_WAY and entry.pod == pod_uid and parse_time(entry.time) + UNDER_WAY_FOR_S > now_s


def _read(text: str, now_s: float) -> Attempt | None:
    try:
        attempt = decode_json(Attempt, text)
        time_s = parse_time(attempt.time)
    except (WireError, ValueError):
        return None
    if attempt.result not in RESULTS or attempt.attempts < 1 or not now_s - KEPT_FOR_S < time_s <= now_s + FUTURE_TOLERANCE_S:
        return None
    return attempt
