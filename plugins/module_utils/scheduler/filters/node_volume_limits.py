# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The number of volumes of a CSI driver that a node can attach (kubernetes ``plugins/nodevolumelimits/csi.go``).

Inline volumes of a pod do not count, unless a CSI driver has taken over their plugin. Those are not computed (``unknowns/volumes.py``).
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

from ...model.reason import PASSED, Reason, Reasons
from ..node_info import NodeInfo
from ..storage.storage_index import UNKNOWN_HANDLE, StorageIndex

TOO_MANY: Reasons = (Reason("volume_limit", "node(s) exceed max volume count"),)


def pre_filter(attachable: Iterable[tuple[str, str]], storage: StorageIndex) -> t.Callable[[NodeInfo], Reasons] | None:
    """Return the check that rejects nodes that cannot attach all volumes of the pod. Return None if none of them counts for a limit.

    ``attachable``: as in ``PodVolumes``.
    """
    wanted = {volume for volume in attachable if volume[0] in storage.limited_drivers and volume[1] != UNKNOWN_HANDLE}
    if not wanted:
        return None

    def check(info: NodeInfo) -> Reasons:
        limits = storage.limits.get(info.node.name)
        if limits is None:
            return PASSED
        attached, without_pod = storage.attached(info).volumes, storage.attached_without_pod(info.node.name)
        if len(attached) + len(without_pod) + len(wanted) <= min(limits.values()):
            return PASSED
        added = Counter(driver for driver, _handle in wanted - attached)
        present = Counter(driver for driver, _handle in (*attached, *(without_pod - attached)))
        exceeded = any(driver in limits and present[driver] + count > limits[driver] for driver, count in added.items())
        return TOO_MANY if exceeded else PASSED

    return check
