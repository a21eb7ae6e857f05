# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The newest state of the cluster with a planner on it: everything between two writes is decided on one of these."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ...model.snapshot import ClusterSnapshot
from ...rescue.plan import Judgement
from ...rescue.planner import RescuePlanner


class View(t.NamedTuple):
    """``now_s``: the API server's clock, seconds since the epoch; ``now_at_s``: this machine's monotonic clock.

    ``judged``: the judgements on it, by what makes pods alike (``alike.py``) or by the pod's UID.
    """

    snapshot: ClusterSnapshot
    planner: RescuePlanner
    now_s: float
    now_at_s: float
    judged: dict[Hashable, Judgement]
