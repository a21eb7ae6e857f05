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
UNDER_WAY_FOR_S = 2 * 3600
"""No rescue may take longer. What has not ended by then was given up, or is begun anew by a program that dies of it again and again."""
KEPT_FOR_S = 7 * 24 * 3600
OTHER_RECORDS = (hold_records.PREFIX,)
"""Keys of the same ConfigMap that begin so are no attempts: whoever writes them keeps them in order."""
MOST_ENTRIES = 1000
"""A ConfigMap holds 1 MiB."""
MOST_PODS = 50
"""Pods of one owner whose failures are told apart; those of further ones count no more than these."""
LASTS_S = 600
"""A rescue has helped if its pod keeps its node for so long."""


class VictimRecord(Struct, frozen=True):
    """A pod that has been evicted, or is evicted next. ``node`` is where it ran; ``code`` and ``text`` say why it was chosen."""

    namespace: str
    name: str
    uid: str
    node: str
    priority: int
    grace_period: int
    code: str
    text: str


class Attempt(Struct, frozen=True):
    """What is kept for one owner, of which several pods may be rescued at a time.

    ``attempts``: how many in a row came to nothing. ``failures`` has those that ended without a node, by the pod's uid; ``lost`` has the
    pods that were bound and lost their node soon, with the time at which that was noticed. ``time``: RFC 3339, when the last of them ended.
    ``under_way``: when the rescue of a pod was begun, by its uid; ``victims``: the pods that are evicted for it. ``rescued``: when a pod
    was bound, by its uid, for as long as it may still lose its node. ``name``: namespace and name of the last pod, for people.
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
    """A rescue is under way for the pod; writing it twice changes nothing. One that was left so for two hours has failed before."""
    entry = entry or Attempt(attempts=0, time=format_time(now_s), name=name)
    fresh = _fresh(entry, now_s)
    if pod_uid in fresh:
        return entry
    if pod_uid in entry.under_way:
        entry = failed(entry, now_s=now_s, pod_uid=pod_uid, name=name)
    return replace(entry, name=name, under_way={**fresh, pod_uid: format_time(now_s)})


def evicting(entry: Attempt, *, pod_uid: str, victims: t.Sequence[VictimRecord]) -> Attempt:
    """The pods that have been evicted for the pod, and the one that is evicted next."""
    return replace(entry, victims={**entry.victims, pod_uid: tuple(victims)})


def failed(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str) -> Attempt:
    """The rescue ended without the pod being bound."""
    entry = entry or Attempt(attempts=0, time=format_time(now_s), name=name)
    failures = _newest({**entry.failures, pod_uid: entry.failures.get(pod_uid, 0) + 1})
    return _ended(replace(entry, failures=failures, time=format_time(now_s), name=name), [pod_uid], now_s)


def helped(entry: Attempt | None, *, now_s: float, pod_uid: str, name: str, pending: Collection[str]) -> Attempt:
    """The pod is bound: its failures are forgotten, and those of pods that are no longer ``pending``. Nodes that were lost still count."""
    entry = entry or Attempt(attempts=0, time=format_time(now_s), name=name)
    failures = {uid: number for uid, number in entry.failures.items() if uid != pod_uid and uid in pending}
    rescued = _newest({**entry.rescued, pod_uid: format_time(now_s)})
    return _ended(replace(entry, failures=failures, rescued=rescued), [pod_uid], now_s)


def called_off(entry: Attempt | None, *, now_s: float, pod_uid: str) -> Attempt | None:
    """Nothing has come of the rescue, and nothing could have: the pod was deleted, or the node was not to be had."""
    if entry is None:
        return None
    left = _ended(entry, [pod_uid], now_s)
    return left if _is_of_use(left) else None


def without_lost(entry: Attempt | None, *, now_s: float, living: Collection[str]) -> Attempt | None:
    """The entry when the owner needs another rescue: each pod that was rescued and no longer lives has lost its node, which is a failure.

    ``living``: uids of the pods that are neither gone nor terminating. Why a pod went cannot be told once it is gone; a pod that its owner
    has replaced counts as well if what replaces it needs a rescue so soon. A rescue that was left under way counts if its pod is gone.
    """
    if entry is None:
        return None
    gone = [uid for uid in (*entry.rescued, *_fresh(entry, now_s)) if uid not in living]
    if not gone:
        return entry
    time = format_time(now_s)
    lost = _newest({**entry.lost, **dict.fromkeys(gone, time)})
    rescued = {uid: at for uid, at in entry.rescued.items() if uid not in gone}
    return _ended(replace(entry, lost=lost, rescued=rescued, time=time), gone, now_s)


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


def _newest(entries: dict[str, t.Any]) -> dict[str, t.Any]:
    return dict(list(entries.items())[-MOST_PODS:])


def _ended(entry: Attempt, uids: Collection[str], now_s: float) -> Attempt:
    """No rescue of these pods is under way any more; the attempts are counted again."""
    under_way = {uid: time for uid, time in _fresh(entry, now_s).items() if uid not in uids}
    victims = {uid: records for uid, records in entry.victims.items() if uid in under_way}
    attempts = sum(entry.failures.values()) + len(entry.lost)
    return replace(entry, under_way=under_way, victims=victims, attempts=attempts)


def _is_of_use(entry: Attempt) -> bool:
    return bool(entry.attempts or entry.under_way or entry.rescued)


def _settled(entry: Attempt, now_s: float) -> Attempt:
    """A rescue that has lasted makes up for the nodes that were lost before."""
    lasted = [parse_time(time) for time in entry.rescued.values() if parse_time(time) + LASTS_S <= now_s]
    if not lasted:
        return entry
    rescued = {uid: time for uid, time in entry.rescued.items() if parse_time(time) + LASTS_S > now_s}
    lost = {uid: time for uid, time in entry.lost.items() if parse_time(time) > max(lasted)}
    return replace(entry, rescued=rescued, lost=lost, attempts=sum(entry.failures.values()) + len(lost))


def _read(text: str, now_s: float) -> Attempt | None:
    try:
        attempt = decode_json(Attempt, text)
        dated = (attempt.under_way, attempt.rescued, attempt.lost)
        times = [parse_time(time) for time in (attempt.time, *(time for entries in dated for time in entries.values()))]
    except (WireError, ValueError):
        return None
    counted = attempt.attempts >= 0 and all(number > 0 for number in attempt.failures.values())
    if not counted or attempt.attempts != sum(attempt.failures.values()) + len(attempt.lost):
        return None
    if not all(now_s - KEPT_FOR_S < time_s <= now_s + FUTURE_TOLERANCE_S for time_s in times):
        return None
    attempt = _settled(attempt, now_s)
    return attempt if _is_of_use(attempt) else None
