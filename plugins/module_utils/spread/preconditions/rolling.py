# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a rollout is in progress. The reason names its origin and the cause that keeps it from ending."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...state.restart_outcome import FAILED, PENDING, read_outcome
from ..history import is_of_current_revision
from ..rollout import is_rolling


def rolling_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the rollout that is in progress.

    None if there is none. The text names the container that blocks it. It also states if an earlier run of this collection began it.
    """
    if not is_rolling(workload, snapshot):
        return None
    from ..stuck_pods import new_pods, stuck_container  # only rollouts in progress need it

    outcome = read_outcome(workload.metadata.annotations)
    own = outcome is not None and outcome.outcome in (PENDING, FAILED) and is_of_current_revision(workload, outcome, snapshot)
    begun = f"the rollout of {workload} that k8s_rollout_restart began at {outcome.time}" if own and outcome is not None else ""
    stuck = stuck_container(new_pods(workload, snapshot))
    if stuck:
        text = f"{begun or f'a rollout of {workload}'} does not progress: {stuck}; remove the cause, or undo it with kubectl rollout undo"
        return Reason("rolling", text)
    if begun:
        return Reason("rolling", f"{begun} has not ended; wait for its end, or undo it with kubectl rollout undo")
    return Reason("rolling", f"a rollout of {workload} is in progress; wait for its end, or undo it if it cannot end")
