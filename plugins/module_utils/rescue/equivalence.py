# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Groups of critical pods with the same plan. On one snapshot, an eviction that helps one pod of a group helps all of them."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ..model.api.pod import Pod, mounts_claims
from ..model.api.volume import Volume
from ..model.codec import encode_json, replace
from ..model.snapshot import ClusterSnapshot, owner_key
from ..scheduler.affinity_term_index import required_anti_affinity, required_pod_affinity
from .critical import effective_priority
from .options import RescueOptions
from .plan import RescueContext


def equivalence_key(pod: Pod, context: RescueContext, snapshot: ClusterSnapshot, options: RescueOptions) -> t.Optional[Hashable]:
    """Return a key that is equal for pods with the same plan on the snapshot. Return None for a pod that is equal to no other.

    Names and UIDs do not count, nor do the names of volumes, unless a volume binds the pod to a node. The controller counts only if it has
    bound pods, because these are not evicted for a pod of the same controller. A pod with volume claims or resource claims is equal to no
    other, because the claims may be its own.
    """
    spec, metadata = pod.spec, pod.metadata
    if mounts_claims(pod) or spec.resource_claims:
        return None
    owner = owner_key(pod)
    if owner is not None and not any(other.spec.node_name for other in snapshot.pods_by_owner.get(owner, ())):
        owner = metadata.namespace, ""
    nameless = replace(spec, volumes=tuple(map(_nameless, spec.volumes or ())))
    labels = tuple(sorted((metadata.labels or {}).items()))
    nominated = pod.status.nominated_node_name
    return owner, metadata.namespace, labels, effective_priority(pod, options), nominated, context, encode_json(nameless)


def depends_on_others(pod: Pod) -> bool:
    """Return whether the pod has rules about other pods, or mounts claims, so that the plan for it takes longer."""
    rules = (required_pod_affinity(pod), required_anti_affinity(pod), pod.spec.topology_spread_constraints)
    return any(rules) or mounts_claims(pod)


def _nameless(volume: Volume) -> Volume:
    """Return the volume without its name. The token volume that admission adds has a different name in each pod."""
    return replace(volume, name="")
