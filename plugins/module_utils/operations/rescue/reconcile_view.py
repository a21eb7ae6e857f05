# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The input of one step of a rescue."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ...model.snapshot import ClusterSnapshot
from ...rescue.plan import RescuePlan
from ...rescue.planner import RescuePlanner


class ReconcileView(t.NamedTuple):
    """The state of one step.

    ``now_s`` is the API server's clock in seconds since the epoch; ``now_at_s`` is this machine's monotonic clock. ``plans`` has the plans
    on it, by equivalence key (``rescue/equivalence.py``) or by the pod's UID. ``observed_in_s``: the duration of the observation.
    """

    snapshot: ClusterSnapshot
    planner: RescuePlanner
    now_s: float
    now_at_s: float
    plans: dict[Hashable, RescuePlan]
    observed_in_s: float
