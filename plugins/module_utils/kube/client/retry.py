# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The decision whether a failed request is repeated, and when: after 429, after 5xx, and after a broken connection."""

from __future__ import annotations

import typing as t

from ...model.backoff import Backoff
from .errors import ApiError, ForbiddenError, NotSentError, OverloadedError, TLSError, UnreachableError, was_not_applied

BACKOFF = Backoff(0.5, 10.0)
LONGEST_EARLY_PAUSE_S = 1.0
RETRIED_STATUSES = (500, 502, 503, 504)


class RetryLimits(t.NamedTuple):
    """The limits of the repetitions of one call, in seconds.

    ``elapsed_s``: the time since its first try. ``retry_for_s``: the time in which repetitions begin. ``write_within_s``: the longest
    duration of a write. No call, also no read, is repeated after an error of the server that came later than half of it.
    ``answer_timeout_s``: the longest wait for an answer. ``left_s``: the time in which every write must have ended. The last four are
    infinite without a limit.
    """

    elapsed_s: float
    retry_for_s: float
    write_within_s: float
    answer_timeout_s: float
    left_s: float


def retry_wait_s(
    error: t.Union[ApiError, UnreachableError], failures: int, limits: RetryLimits, *, harmless: bool = True, only_early: bool = False
) -> t.Optional[float]:
    """Return the seconds after which the call is repeated, or None if it is not repeated.

    ``failures``: the number of failed tries of the call. ``harmless``: a repetition does no harm if the server has carried out the call.
    ``only_early``: only the denial by a server that has just started is followed by a repetition.
    """
    if only_early and not (isinstance(error, ForbiddenError) and error.early):
        return None
    if not harmless and not was_not_applied(error):
        return None
    wait_s = _pause_s(error, failures)
    if wait_s is None:
        return None
    if not only_early and not isinstance(error, UnreachableError) and limits.elapsed_s > limits.write_within_s / 2:
        return None  # the next try may take as long, and the caller has other work
    in_time = limits.elapsed_s + wait_s <= limits.retry_for_s
    return wait_s if in_time or (failures == 1 and _allows_one_more(error, wait_s, limits)) else None


def _pause_s(error: t.Union[ApiError, UnreachableError], failures: int) -> t.Optional[float]:
    """Return the pause before the next try, or None if the same call would fail again."""
    pause_s = BACKOFF.pause_s(failures)
    if isinstance(error, UnreachableError):
        return None if isinstance(error, TLSError) else pause_s
    if isinstance(error, OverloadedError) or error.status in RETRIED_STATUSES:
        return error.retry_after_s or pause_s  # a proxy that says 0 seconds each time must not be asked without a pause
    return min(pause_s, LONGEST_EARLY_PAUSE_S) if isinstance(error, ForbiddenError) and error.early else None


def _allows_one_more(error: t.Union[ApiError, UnreachableError], wait_s: float, limits: RetryLimits) -> bool:
    """Return whether one repetition is allowed after ``retry_for_s`` because an answer was lost.

    The wait for one answer may take all of ``retry_for_s``. The repetition must end before the time of writes is over.
    """
    if not isinstance(error, UnreachableError) or isinstance(error, NotSentError) or limits.retry_for_s <= 0:
        return False
    return wait_s + limits.answer_timeout_s <= limits.left_s
