# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why the result of a node is uncertain because of a pod's volumes."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.pod import Pod, mounts_claims
from ...model.api.storage import class_of_claim, in_tree_plugin
from ...model.reason import PASSED, Reason, Reasons
from ..filters.volume_binding import uses_migrated_topology, volume_matcher
from ..node_info import NodeInfo
from ..storage.pod_volumes import PodVolumes, unreadable_reason
from ..storage.storage_index import UNKNOWN_HANDLE, StorageIndex

MIGRATED = Reason("migrated_volumes", "a CSI driver has replaced the in-tree plugin of a volume; such volumes are not checked")
CHOICE = Reason("volume_choice", "the result depends on which of several volumes the scheduler chooses")

_UnknownOf = t.Callable[[NodeInfo], Reasons]


def volume_unknowns(volumes: PodVolumes, storage: StorageIndex, arrived_pods: t.Callable[[], Iterable[Pod]]) -> _UnknownOf | None:
    """Return a function that returns the reasons why the result of a node is uncertain. Every filter has passed the node.

    Return None if there are no such reasons. ``arrived_pods`` returns the pods that were assigned to a node since the snapshot.
    """
    if volumes.rejected:
        return None
    unknowns = [*(unknown(volumes, storage) for unknown in (_limits, _translation, _choice)), _competition(volumes, storage, arrived_pods)]
    asked = [unknown for unknown in unknowns if unknown is not None]
    if not asked:
        return None
    return lambda info: tuple(dict.fromkeys(reason for unknown in asked for reason in unknown(info)))


def _limits(volumes: PodVolumes, storage: StorageIndex) -> _UnknownOf | None:
    drivers = {driver for driver, _handle in volumes.attachable} & storage.limited_drivers
    unknown = {driver for driver, handle in volumes.attachable if handle == UNKNOWN_HANDLE} & drivers
    if not drivers:
        return None

    def check(info: NodeInfo) -> Reasons:
        limited = drivers.intersection(storage.limits.get(info.node.name, ()))
        if not limited:
            return PASSED
        uncertain = storage.attached(info).uncertain
        if limited & (unknown | uncertain):
            return (MIGRATED,)
        return (unreadable_reason("persistentvolumeclaims"),) if "" in uncertain else PASSED

    return check


def _translation(volumes: PodVolumes, storage: StorageIndex) -> _UnknownOf | None:
    bound = [volume for volume in volumes.bound if volume is not None and in_tree_plugin(volume.spec)]
    if not bound:
        return None
    return lambda info: (MIGRATED,) if any(uses_migrated_topology(volume, info.node, storage) for volume in bound) else PASSED


def _choice(volumes: PodVolumes, storage: StorageIndex) -> _UnknownOf | None:
    if len(volumes.delayed) == 1 and not storage.has_competing_volumes(volumes.delayed[0]):
        return None
    match = volume_matcher(volumes.delayed, storage)
    return None if match is None else lambda info: (CHOICE,) if match(info.node).uncertain else PASSED


def _competition(volumes: PodVolumes, storage: StorageIndex, arrived_pods: t.Callable[[], Iterable[Pod]]) -> _UnknownOf | None:
    """Return a function that returns CHOICE if an earlier pod of the simulation may have bound a claim or a free volume."""
    if not _competes(volumes, storage):
        return None
    return lambda _info: (CHOICE,) if any(map(mounts_claims, arrived_pods())) else PASSED


def _competes(volumes: PodVolumes, storage: StorageIndex) -> bool:
    """Return whether the node chosen for one such pod affects where the next such pod can be placed."""
    return any(
        storage.available(class_of_claim(claim) or "") or (claim.metadata.namespace, claim.metadata.name) in storage.claims
        for claim in volumes.delayed
    )
