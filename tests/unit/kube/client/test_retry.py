# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A failed request is repeated only if that may help, does no harm, and ends in time."""

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    ForbiddenError,
    NotSentError,
    OverloadedError,
    TLSError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.retry import RetryLimits, retry_wait_s

LIMITS = RetryLimits(elapsed_s=0.0, retry_for_s=60.0, write_within_s=math.inf, answer_timeout_s=30.0, left_s=math.inf)


def early() -> ForbiddenError:
    error = ForbiddenError("forbidden", status=403)
    error.early = True
    return error


def api(status: int, retry_after_s: float | None = None) -> ApiError:
    return ApiError(f"HTTP {status}", status=status, retry_after_s=retry_after_s)


LOST, NOT_SENT, TLS = UnreachableError("reset"), NotSentError("refused"), TLSError("certificate")
OVERLOADED = OverloadedError("HTTP 429", status=429)


@pytest.mark.parametrize(
    ("error", "failures", "limits", "how", "expected"),
    [
        pytest.param(LOST, 1, {}, {}, 0.5, id="a lost answer"),
        pytest.param(LOST, 4, {}, {}, 4.0, id="the pause grows"),
        pytest.param(LOST, 40, {}, {}, 10.0, id="the pause is bounded"),
        pytest.param(NOT_SENT, 1, {}, {}, 0.5, id="a request that was not sent"),
        pytest.param(TLS, 1, {}, {}, None, id="a certificate stays wrong"),
        pytest.param(OVERLOADED, 1, {}, {}, 0.5, id="an overloaded server"),
        pytest.param(OverloadedError("HTTP 429", status=429, retry_after_s=7.0), 1, {}, {}, 7.0, id="the server says when"),
        pytest.param(OverloadedError("HTTP 429", status=429, retry_after_s=0.0), 1, {}, {}, 0.5, id="the server says now"),
        *(pytest.param(api(status), 1, {}, {}, 0.5, id=f"HTTP {status}") for status in (500, 502, 503, 504)),
        *(pytest.param(api(status), 1, {}, {}, None, id=f"HTTP {status}") for status in (400, 404, 409, 410, 422, 501)),
        pytest.param(ForbiddenError("forbidden", status=403), 1, {}, {}, None, id="a denial"),
        pytest.param(early(), 1, {}, {}, 0.5, id="a denial by a server that has just started"),
        pytest.param(early(), 9, {}, {}, 1.0, id="the pause after such a denial stays short"),
        # A write that is not harmless.
        pytest.param(LOST, 1, {}, {"harmless": False}, None, id="the server may have carried out the write"),
        pytest.param(api(500), 1, {}, {"harmless": False}, None, id="the server may have carried out the write before its error"),
        pytest.param(NOT_SENT, 1, {}, {"harmless": False}, 0.5, id="the write was not sent"),
        pytest.param(OVERLOADED, 1, {}, {"harmless": False}, 0.5, id="the server has not accepted the write"),
        # Only denials by a server that has just started.
        pytest.param(early(), 1, {}, {"only_early": True}, 0.5, id="only early: such a denial"),
        *(pytest.param(error, 1, {}, {"only_early": True}, None, id=f"only early: {error}") for error in (LOST, NOT_SENT, OVERLOADED)),
        pytest.param(early(), 2, {"elapsed_s": 3.0, "write_within_s": 5.0}, {"only_early": True}, 1.0, id="only early: late"),
        # Time.
        pytest.param(api(503), 2, {"elapsed_s": 59.0}, {}, 1.0, id="the last moment"),
        pytest.param(api(503), 2, {"elapsed_s": 59.1}, {}, None, id="the time for repetitions is over"),
        pytest.param(api(503, 61.0), 1, {}, {}, None, id="the server asks for more time than there is"),
        pytest.param(api(503), 1, {"retry_for_s": 0.0}, {}, None, id="no time for repetitions"),
        pytest.param(LOST, 1, {"elapsed_s": 90.0}, {}, 0.5, id="one repetition after a long wait for an answer"),
        pytest.param(LOST, 2, {"elapsed_s": 90.0}, {}, None, id="no second one"),
        pytest.param(NOT_SENT, 1, {"elapsed_s": 90.0}, {}, None, id="none if nothing was sent"),
        pytest.param(LOST, 1, {"elapsed_s": 90.0, "retry_for_s": 0.0}, {}, None, id="none if repetitions are off"),
        pytest.param(LOST, 1, {"elapsed_s": 90.0, "left_s": 30.4}, {}, None, id="none that ends after the time of writes"),
        pytest.param(LOST, 1, {"elapsed_s": 90.0, "left_s": 30.5}, {}, 0.5, id="one that ends in the time of writes"),
        pytest.param(api(503), 1, {"elapsed_s": 2.6, "write_within_s": 5.0}, {}, None, id="a slow server gets no second write"),
        pytest.param(api(503), 1, {"elapsed_s": 2.5, "write_within_s": 5.0}, {}, 0.5, id="a quick server gets one"),
        pytest.param(LOST, 1, {"elapsed_s": 2.6, "write_within_s": 5.0}, {}, 0.5, id="a broken connection is no slow server"),
    ],
)
def test_request_is_repeated_if_that_may_help_does_no_harm_and_ends_in_time(
    error: ApiError | UnreachableError, failures: int, limits: dict[str, float], how: dict[str, t.Any], expected: float | None
) -> None:
    assert retry_wait_s(error, failures, LIMITS._replace(**limits), **how) == expected
