# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The predicted result of a restart, and the reasons that prevent it."""

from __future__ import annotations

import typing as t

from ...model.codec import Struct, field
from ...model.reason import Blocker


class Prediction(Struct, frozen=True):
    """The prediction for one workload.

    ``restart_helps`` is True, False, or None if it is unknown. ``feasible_domains`` are by topology key. ``expected``: the replicas by
    domain after a restart, for each topology key. It is empty if the scores were not needed, or are not known. ``awaits_ends``: the
    prediction is for a restart after the end of the pods that are terminating now. Without that it is unknown.
    """

    restart_helps: t.Optional[bool]
    feasible_domains: dict[str, list[str]] = field(default_factory=dict)
    blockers: list[Blocker] = field(default_factory=list)
    expected: dict[str, dict[str, int]] = field(default_factory=dict)
    awaits_ends: bool = False
