# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: all replicas share a claim that only one node can mount."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..next_pod.next_pod import next_pod

SINGLE_WRITER_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def shared_volume_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the claim that keeps all replicas on one node. None if there is none."""
    claim = shared_single_writer_claim(workload, snapshot)
    if not claim:
        return None
    return Reason("shared_rwo_volume", f"the replicas of {workload} share the claim {claim}, which only one node can mount")


def shared_single_writer_claim(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return the claim that all replicas share although only one node at a time can mount it; empty if there is none.

    The scheduler has no filter for this. New pods on another node would wait forever for the volume of the old ones.
    """
    # The volume of a claim template replaces the template's volume of the same name.
    own = {template.metadata.name for template in workload.spec.volume_claim_templates or ()}
    specs = (workload.spec.template.spec, next_pod(workload, snapshot).pod.spec)
    for volume in (volume for spec in specs for volume in spec.volumes or ()):
        if volume.persistent_volume_claim is None or volume.name in own:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = snapshot.claims.get((workload.metadata.namespace, name))
        modes = (claim.spec.access_modes if claim is not None else None) or ()
        if modes and all(mode in SINGLE_WRITER_MODES for mode in modes):
            return name
    return ""
