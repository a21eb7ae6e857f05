# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Disks and claims that only one pod may use (kubernetes ``plugins/volumerestrictions/volume_restrictions.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.volume import ISCSI, RBD, GCEPersistentDisk, Volume
from ...model.reason import PASSED, Reason, Reasons
from ..node_info import NodeInfo
from ..storage.pod_volumes import PodVolumes, disks_of
from ..storage.storage_index import claims_used

DISK_TAKEN: Reasons = (Reason("disk_conflict", "node(s) had no available disk"),)
CLAIM_TAKEN: Reasons = (
    Reason(
        "claim_in_use",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
)


def pre_filter(
    volumes: PodVolumes, claim_in_use: t.Callable[[tuple[str, str]], bool], info_of: t.Callable[[str], NodeInfo]
) -> VolumeRestrictionsFilter | None:
    """Return the filter that rejects nodes with a pod on the same disk, and all nodes while a ReadWriteOncePod claim is in use.

    Return None if the pod has neither such disks nor such claims. ``claim_in_use`` returns whether a pod on some node uses the claim
    (namespace and name) now. ``info_of`` returns a node with its pods now.
    """
    return VolumeRestrictionsFilter(volumes, claim_in_use, info_of) if volumes.disks or volumes.single_pod_claims else None


class VolumeRestrictionsFilter:
    """The filter for one pod. Its result for a node also depends on other nodes: ``refresh`` returns whether it has changed."""

    def __init__(
        self, volumes: PodVolumes, claim_in_use: t.Callable[[tuple[str, str]], bool], info_of: t.Callable[[str], NodeInfo]
    ) -> None:
        self._disks = volumes.disks
        self._single_pod_claims = volumes.single_pod_claims
        self._claim_in_use, self._info_of = claim_in_use, info_of
        self._taken = self._is_taken()

    def refresh(self) -> bool:
        """Check the claims again. Return whether a claim in use now rejects all nodes and did not before, or the reverse."""
        before, self._taken = self._taken, self._is_taken()
        return before != self._taken

    def __call__(self, info: NodeInfo) -> Reasons:
        there = [other for pod, _load in info.pods.values() for other in pod.spec.volumes or ()] if self._disks else ()
        if any(_share(mine, other) for other in there for mine in self._disks):
            return DISK_TAKEN
        return CLAIM_TAKEN if self._taken or self._is_claimed_by_nominated(info) else PASSED

    def _is_taken(self) -> bool:
        return any(map(self._claim_in_use, self._single_pod_claims))

    def _is_claimed_by_nominated(self, info: NodeInfo) -> bool:
        """Return whether a pod nominated for the node mounts a claim with the name of one of the pod's ReadWriteOncePod claims.

        1.36 does not compare their namespaces. Without a disk or a claim in use, the scheduler skips its plugin before it adds nominated
        pods.
        """
        if not self._disks or not self._single_pod_claims:
            return False
        names = {name for _namespace, name in self._single_pod_claims}
        here = self._info_of(info.node.name).pods
        return any(name in names for key, (pod, _load) in info.pods.items() if key not in here for _namespace, name in claims_used(pod))


def _share(mine: Volume, other: Volume) -> bool:
    return any(one is not None and two is not None and _clash(one, two) for one, two in zip(disks_of(mine), disks_of(other)))


def _clash(one: t.Any, two: t.Any) -> bool:
    """Return whether the sources are the same disk, unless both are read-only. An Amazon disk has no such exception."""
    if isinstance(one, GCEPersistentDisk):
        return one.pd_name == two.pd_name and not (one.read_only and two.read_only)
    if isinstance(one, ISCSI):
        return one.iqn == two.iqn and not (one.read_only and two.read_only)
    if isinstance(one, RBD):
        same = one.pool == two.pool and one.image == two.image and bool({*(one.monitors or ())} & {*(two.monitors or ())})
        return same and not (one.read_only and two.read_only)
    return bool(one.volume_id == two.volume_id)
