# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: all replicas share a claim that only one node can mount."""

from __future__ import annotations

import typing as t

from ...model.api.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim
from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..next_pod.next_pod import next_pod

READ_WRITE_ONCE, READ_WRITE_ONCE_POD = "ReadWriteOnce", "ReadWriteOncePod"


def shared_volume_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the claim that keeps all replicas on one node. None if there is none."""
    claim = shared_single_writer_claim(workload, snapshot)
    if not claim:
        return None
    return Reason("shared_rwo_volume", f"the replicas of {workload} share the claim {claim}, which only one node can mount")


def shared_single_writer_claim(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return the claim that all replicas share although only one node at a time can mount it; empty if there is none.

    The scheduler has no filter for this. New pods on another node would wait forever for the volume of the old ones. A volume that is not
    attached to a node is mounted by any number of nodes, also with ReadWriteOnce (kubernetes ``pkg/controller/volume/attachdetach``,
    ``pkg/volume/csi``).
    """
    # The volume of a claim template replaces the template's volume of the same name.
    own = {template.metadata.name for template in workload.spec.volume_claim_templates or ()}
    specs = (workload.spec.template.spec, next_pod(workload, snapshot).pod.spec)
    for volume in (volume for spec in specs for volume in spec.volumes or ()):
        if volume.persistent_volume_claim is None or volume.name in own:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = snapshot.claims.get((workload.metadata.namespace, name))
        if claim is not None and _is_for_one_node(claim, snapshot):
            return name
    return ""


def _is_for_one_node(claim: PersistentVolumeClaim, snapshot: ClusterSnapshot) -> bool:
    modes = set(claim.spec.access_modes or ())
    if not modes or modes - {READ_WRITE_ONCE, READ_WRITE_ONCE_POD}:
        return False
    return READ_WRITE_ONCE_POD in modes or _may_be_attached(claim, snapshot)


def _may_be_attached(claim: PersistentVolumeClaim, snapshot: ClusterSnapshot) -> bool:
    """Return whether the volume of the claim is attached to a node, or is not known."""
    volume = snapshot.once(_volumes).get(claim.spec.volume_name)
    if volume is None:
        return True
    if volume.spec.csi is None:
        return volume.spec.nfs is None
    driver = snapshot.once(_drivers).get(volume.spec.csi.driver)
    return driver is None or driver.spec.attach_required is not False


def _volumes(snapshot: ClusterSnapshot) -> dict[str, PersistentVolume]:
    return {volume.name: volume for volume in (snapshot.storage.volumes if snapshot.storage else ())}


def _drivers(snapshot: ClusterSnapshot) -> dict[str, CSIDriver]:
    return {driver.metadata.name: driver for driver in (snapshot.storage.drivers if snapshot.storage else ())}
