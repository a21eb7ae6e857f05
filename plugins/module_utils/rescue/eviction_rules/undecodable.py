# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod that cannot be decoded is not evicted: nothing is known of what protects it."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.undecodable import UNDECODABLE, UndecodablePod

NOT_DECODABLE = Reason(UNDECODABLE, "it cannot be decoded")


def undecodable_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod that cannot be decoded."""
    return NOT_DECODABLE if isinstance(pod, UndecodablePod) else None
