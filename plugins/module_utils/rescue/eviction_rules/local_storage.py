# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod that keeps data on its node (emptyDir, hostPath) is not evicted."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..options import RescueOptions

LOCAL_STORAGE = Reason("local_storage", "it keeps data on the node; allow_local_storage would allow it")


def local_storage_violation(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    """Return a reason for a pod with a volume whose data is on the node."""
    return LOCAL_STORAGE if not options.allow_local_storage and any(volume.local for volume in pod.spec.volumes or ()) else None
