# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod without a controller is not evicted: no controller would create it again."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..options import RescueOptions

BARE = Reason("bare_pod", "no controller would start it elsewhere; allow_bare_pods would allow it")


def bare_pod_violation(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    """Return a reason for a pod without a controller."""
    return BARE if not options.allow_bare_pods and pod.metadata.controller is None else None
