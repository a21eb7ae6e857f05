# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Disks and claims that one pod keeps from another (kubernetes ``plugins/volumerestrictions/volume_restrictions.go``)."""

from __future__ import annotations

import typing as t

from ...model.objects import ISCSI, RBD, GCEPersistentDisk, Pod, Volume
from ...model.reasons import Reason
from ..node_info import NodeInfo
from ..placement import Placement
from ..pod_volumes import disks_of
from ..reasons import PASSED, Reasons

DISK_TAKEN: Reasons = (Reason("disk_conflict", "node(s) had no available disk"),)
CLAIM_TAKEN: Reasons = (
    Reason(
        "claim_in_use",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
)


def prepare(pod: Pod, placement: Placement) -> t.Callable[[NodeInfo], Reasons] | None:
    """Rejects nodes with a pod on the same disk, and all nodes while a ReadWriteOncePod claim is in use anywhere."""
    volumes = placement.volumes_of(pod)
    if volumes is None:
        return None
    disks = volumes.disks
    taken = CLAIM_TAKEN if any(placement.claim_in_use(claim) for claim in volumes.single) else PASSED
    if not disks and not taken:
        return None

    def check(info: NodeInfo) -> Reasons:
        if disks and any(_share(mine, other) for pod, _load in info.pods.values() for other in pod.spec.volumes or () for mine in disks):
            return DISK_TAKEN
        return taken

    return check


def _share(mine: Volume, other: Volume) -> bool:
    return any(one is not None and two is not None and _clash(one, two) for one, two in zip(disks_of(mine), disks_of(other)))


def _clash(one: t.Any, two: t.Any) -> bool:
    """The same disk, unless both only read it. An Amazon disk has no readers of that kind."""
    if isinstance(one, GCEPersistentDisk):
        return one.pd_name == two.pd_name and not (one.read_only and two.read_only)
    if isinstance(one, ISCSI):
        return one.iqn == two.iqn and not (one.read_only and two.read_only)
    if isinstance(one, RBD):
        same = one.pool == two.pool and one.image == two.image and bool({*(one.monitors or ())} & {*(two.monitors or ())})
        return same and not (one.read_only and two.read_only)
    return bool(one.volume_id == two.volume_id)
