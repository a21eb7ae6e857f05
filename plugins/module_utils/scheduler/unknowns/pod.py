# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why the result for a pod or a snapshot is uncertain. An uncertain result never counts as feasible.

The reasons that are about single nodes are in ``volumes.py`` and in the files of the filters.
"""

from __future__ import annotations

import typing as t

from ...model.api.device import DEVICE_CLASS_PREFIX
from ...model.api.pod import Pod, extended_resources
from ...model.reason import PASSED, Reason, Reasons
from ...model.scheduler_profile import Profiles
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import UNDECODABLE, Undecodable
from ..node_info import NodeInfo
from ..storage.pod_volumes import PodVolumes
from .reasons import FOREIGN_SCHEDULER, PODS_NOT_READABLE

NOMINATED: Reasons = (Reason("nominated_pod", "a pending pod is nominated for the node and may be scheduled before this pod"),)
_BY_EXTENDER = Reason("depends_on_extender", "an extender of the scheduler may reject nodes because of a resource that it manages")
_VOLUMES = Reason("volume_plugins_disabled", "the profile disables a plugin for volumes, and the effect on the pod is not computed")
VOLUME_PLUGINS = frozenset(("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"))


def pod_unknowns(pod: Pod, snapshot: ClusterSnapshot, volumes: PodVolumes | None, profiles: Profiles) -> Reasons:
    """Return the reasons of the pod, or of the snapshot as a whole, that make the results of all nodes uncertain."""
    found = [reason for applies, reason in _OF_POD if applies(pod)]
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None:
        found.append(FOREIGN_SCHEDULER)
    else:
        found += profile.unknown
        if profile.extender_resources and profile.extender_resources & extended_resources(pod):
            found.append(_BY_EXTENDER)
        if volumes is not None and VOLUME_PLUGINS & (profile.disabled_filters | profile.disabled_pre_filters):
            found.append(_VOLUMES)
    limits = snapshot.undecodable_in(pod.metadata.namespace, "LimitRange") if not pod.metadata.uid else None
    if limits is not None:
        found.append(limits.reason)
    if not snapshot.complete_pods:
        found.append(PODS_NOT_READABLE)
    if volumes is not None:
        found.extend(volumes.unknowns)
    return tuple(found)


def undecodable_pod_unknowns(snapshot: ClusterSnapshot) -> t.Callable[[NodeInfo], Reasons] | None:
    """Return a function that returns a reason for a node with a pod that could not be decoded. Return None if there is no such node."""
    pods = snapshot.undecodable_pods
    return (lambda info: (undecodable_pod_reason(pods[info.node.name]),) if info.node.name in pods else PASSED) if pods else None


def undecodable_pod_reason(undecodable: Undecodable) -> Reason:
    """Return the reason for a node with a pod that could not be decoded."""
    return Reason(UNDECODABLE, f"the free capacity of the node is not known, because {undecodable.text}")


# --- the pod ----------------------------------------------------------------------------------------------------------


def _claims_devices(pod: Pod) -> bool:
    requests = (container.resources.requests for container in pod.spec.all_containers if container.resources is not None)
    return bool(pod.spec.resource_claims) or any(name.startswith(DEVICE_CLASS_PREFIX) for names in requests for name in names or ())


_OF_POD: tuple[tuple[t.Callable[[Pod], bool], Reason], ...] = (
    (
        lambda pod: bool(pod.spec.scheduling_gates),
        Reason("scheduling_gates", "Scheduling is blocked due to non-empty scheduling gates"),
    ),
    (_claims_devices, Reason("resource_claims", "resource claims are not checked")),
    (
        lambda pod: pod.spec.scheduling_group is not None,
        Reason("scheduling_group", "the pod is scheduled together with others"),
    ),
)
