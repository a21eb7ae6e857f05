# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What of a pod's volumes cannot be judged on a node."""

from __future__ import annotations

import typing as t

from ..model.api.pod import Pod, mounts_claims
from ..model.api.storage import class_of_claim
from ..model.reason import PASSED, Reason, Reasons
from .filters.volume_binding import is_translated, prepare_offer
from .node_info import NodeInfo
from .placement import Placement
from .pod_volumes import PodVolumes, unreadable
from .volume_index import UNKNOWN_HANDLE, in_tree_plugin

MIGRATED = Reason("migrated_volumes", "a CSI driver has taken over a volume's in-tree plugin; what becomes of the volume is not worked out")
CHOICE = Reason("volume_choice", "it depends on which of several volumes the scheduler chooses")

_Doubt = t.Callable[[NodeInfo], Reasons]


def prepare(pod: Pod, placement: Placement) -> _Doubt | None:
    """What cannot be judged on a node that every rule has passed; None where there is nothing of the kind."""
    volumes = placement.volumes_of(pod)
    if volumes is None or volumes.rejected:
        return None
    doubts = [doubt(volumes, placement) for doubt in (_limits, _translation, _choice, _competition)]
    asked = [doubt for doubt in doubts if doubt is not None]
    if not asked:
        return None
    return lambda info: tuple(dict.fromkeys(reason for doubt in asked for reason in doubt(info)))


def _limits(volumes: PodVolumes, placement: Placement) -> _Doubt | None:
    storage = placement.storage
    drivers = {driver for driver, _handle in volumes.attachable} & storage.limited_drivers
    unknown = {driver for driver, handle in volumes.attachable if handle == UNKNOWN_HANDLE} & drivers
    if not drivers:
        return None

    def check(info: NodeInfo) -> Reasons:
        limited = drivers.intersection(storage.limits.get(info.node.name, ()))
        if not limited:
            return PASSED
        unsure = storage.attached(info).unsure
        if limited & (unknown | unsure):
            return (MIGRATED,)
        return (unreadable("persistentvolumeclaims"),) if "" in unsure else PASSED

    return check


def _translation(volumes: PodVolumes, placement: Placement) -> _Doubt | None:
    storage = placement.storage
    bound = [volume for _claim, volume in volumes.bound if volume is not None and in_tree_plugin(volume.spec)]
    if not bound:
        return None
    return lambda info: (MIGRATED,) if any(is_translated(volume, info.node, storage) for volume in bound) else PASSED


def _choice(volumes: PodVolumes, placement: Placement) -> _Doubt | None:
    storage = placement.storage
    if len(volumes.delayed) == 1 and not storage.has_rivals(volumes.delayed[0]):
        return None
    offer = prepare_offer(volumes.delayed, storage)
    return None if offer is None else lambda info: (CHOICE,) if offer(info.node).unsure else PASSED


def _competition(volumes: PodVolumes, placement: Placement) -> _Doubt | None:
    """Pods that came before in a simulation may have bound a claim, or taken the free volumes that one would find."""
    if not _competes(volumes, placement):
        return None
    return lambda _info: (CHOICE,) if any(map(mounts_claims, placement.arrived())) else PASSED


def _competes(volumes: PodVolumes, placement: Placement) -> bool:
    """Where one such pod goes decides where the next one can go, whatever node that is."""
    storage = placement.storage
    return any(
        storage.free(class_of_claim(claim) or "") or (claim.metadata.namespace, claim.metadata.name) in storage.claims
        for claim in volumes.delayed
    )
