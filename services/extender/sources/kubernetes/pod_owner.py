# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The name that all pods of a workload have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .....plugins.module_utils.model.api.meta import OwnerReference
from .....plugins.module_utils.model.well_known import POD_TEMPLATE_HASH
from ...memory_limits import MAX_NAME

SCHEDULED_TIME = re.compile(r"-[0-9]{8,}$")
"""The end of the name of a CronJob's Job: minutes since 1970 (kubernetes ``cronjob/utils.go``, getJobName)."""


def owner_name(controller: OwnerReference | None, labels: Mapping[str, str]) -> str:
    """Return the name of a pod's controller, at most 253 characters of it, or an empty text.

    The name of a ReplicaSet ends with the hash of its revision, and that of a CronJob's Job with its time. Both are removed.
    """
    if controller is None:
        return ""
    name = controller.name[:MAX_NAME]
    if controller.kind == "ReplicaSet" and labels.get(POD_TEMPLATE_HASH):
        return name.removesuffix("-" + labels[POD_TEMPLATE_HASH])
    return SCHEDULED_TIME.sub("", name) if controller.kind == "Job" else name
