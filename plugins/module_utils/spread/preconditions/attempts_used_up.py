# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the last attempts made no progress, and as many as ``max_attempts`` allows have been made."""

from __future__ import annotations

import typing as t

from ...model.messages import pluralize
from ...model.reason import Reason
from ...state.restart_outcome import RestartOutcome


def attempts_used_up_violation(outcome: RestartOutcome, attempts: int, *, eligible: str, max_attempts: int) -> t.Optional[Reason]:
    """Return the reason if ``attempts`` reach ``max_attempts`` on these nodes. None otherwise.

    ``eligible`` is the present ``eligible_hash``. A change of the eligible nodes allows one more attempt, after its back-off. Otherwise a
    node that repeatedly leaves and returns would cause repeated restarts.
    """
    if attempts < max_attempts or outcome.eligible != eligible:
        return None
    made = pluralize(attempts, "attempt")
    text = f"{made} made no progress; a change of the workload or of its eligible nodes allows the next attempt"
    return Reason("attempts_used_up", text)
