# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The meaning of each error for a caller: whether a repetition may help, and whether the request may have been carried out."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    ForbiddenError,
    KubeError,
    MultipleBudgetsError,
    NotSentError,
    OverloadedError,
    TLSError,
    UnreachableError,
    answer_was_lost,
    is_transient,
    may_have_succeeded,
    was_not_applied,
)


def early() -> ForbiddenError:
    error = ForbiddenError('nodes is forbidden: User "tenant" cannot list resource "nodes"', status=403)
    error.early = True
    return error


def repeated(error: KubeError) -> KubeError:
    error.repeated = True
    return error


DENIED = ApiError('admission webhook "a" denied the request: no', status=500, reason="x")


@pytest.mark.parametrize(
    ("error", "transient", "not_applied", "may_be_done", "lost"),
    [
        pytest.param(UnreachableError("reset"), True, False, True, True, id="the connection broke"),
        pytest.param(NotSentError("refused"), True, True, False, False, id="the request was not sent"),
        pytest.param(OverloadedError("busy", status=429), True, True, False, False, id="too many requests"),
        pytest.param(BudgetError("budget", status=429), True, True, False, False, id="a budget allows none now"),
        pytest.param(MultipleBudgetsError("two", status=500, reason=""), False, True, False, False, id="two budgets"),
        pytest.param(ApiError("x", status=500, reason="InternalError"), True, False, True, False, id="an error of the server"),
        pytest.param(ApiError("x", status=504, reason="Timeout"), True, False, True, False, id="the server gave up"),
        pytest.param(ApiError("x", status=502), True, False, True, True, id="a proxy has no server"),
        pytest.param(DENIED, False, True, True, False, id="a webhook denies"),
        pytest.param(ApiError("x", status=404), False, True, False, False, id="there is no such object"),
        pytest.param(ForbiddenError("x", status=403), False, True, False, False, id="a denial of the object"),
        pytest.param(early(), True, True, False, False, id="a denial by a server that has just started"),
        pytest.param(TLSError("certificate"), False, True, False, False, id="a wrong certificate"),
        pytest.param(ApiError("x", status=302), False, False, True, True, id="a proxy redirects"),
        pytest.param(repeated(ApiError("x", status=404)), False, False, True, True, id="no such object, after a lost answer"),
        pytest.param(repeated(NotSentError("no time")), True, False, True, True, id="not sent again, after a lost answer"),
    ],
)
def test_meaning_of_each_error(error: KubeError, transient: bool, not_applied: bool, may_be_done: bool, lost: bool) -> None:
    found = (is_transient(error), was_not_applied(error), may_have_succeeded(error), answer_was_lost(error))
    assert found == (transient, not_applied, may_be_done, lost)
