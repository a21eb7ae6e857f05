# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Free capacity on the node (kubernetes ``plugins/noderesources/fit.go``).

A DeviceClass may offer extended resources. If no device plugin of a node offers such a resource, dynamic resource allocation searches
devices (shouldDelegateResourceToDRA). The devices that it would find are not computed.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable

from ...model.api.device import DEVICE_CLASS_PREFIX, DeviceClass, is_extended
from ...model.api.pod import Pod, extended_resources
from ...model.reason import PASSED, Reason, Reasons
from ...model.scheduler_profile import DEFAULT_PROFILE, SchedulerProfile
from ...model.well_known import BASIC_RESOURCES
from ..node_info import NodeInfo
from ..pod_requests import pod_requests

PLUGIN = "NodeResourcesFit"
TOO_MANY_PODS = Reason("too_many_pods", "Too many pods")


def pre_filter(
    pod: Pod, profile: SchedulerProfile = DEFAULT_PROFILE, devices: Collection[str] = ()
) -> t.Callable[[NodeInfo], Reasons] | None:
    """Return the check that rejects nodes without a free pod slot or without enough of a resource; it returns all these reasons.

    An extended resource that the profile ignores counts as available. A resource of ``devices`` also counts as available on nodes where no
    device plugin offers it: there dynamic resource allocation decides, not this plugin. Return None if the profile has no such filter.
    """
    if not profile.filters_by(PLUGIN):
        return None
    requests = [(name, amount, insufficient(name), name in devices) for name, amount in asked_for(pod, profile)]

    def check(info: NodeInfo) -> Reasons:
        allocatable, requested = info.allocatable, info.requested
        missing = PASSED
        for name, amount, reason, by_device in requests:
            offered = allocatable.get(name, 0)
            if amount > offered - requested.get(name, 0) and not (by_device and offered <= 0):
                missing = (*missing, reason)
        return (TOO_MANY_PODS, *missing) if len(info.pods) >= info.allowed_pods else missing

    return check


def needs_devices(pod: Pod, profile: SchedulerProfile, devices: Collection[str]) -> t.Callable[[NodeInfo], bool] | None:
    """Return a function that returns whether dynamic resource allocation must find one of ``devices`` on the node.

    Return None if the pod requests none of ``devices``.
    """
    # Dynamic resource allocation works without this filter, too.
    requests = [name for name, _amount in _not_ignored(pod, profile) if name in devices] if devices else []
    if not requests:
        return None
    return lambda info: any(info.allocatable.get(name, 0) <= 0 for name in requests)


def asked_for(pod: Pod, profile: SchedulerProfile = DEFAULT_PROFILE) -> list[tuple[str, int]]:
    """Return the resources that the pod requests and that the profile does not ignore, with amounts in scheduler units; cpu is first.

    A profile without NodeResourcesFit ignores all of them.
    """
    return _not_ignored(pod, profile) if profile.filters_by(PLUGIN) else []


def insufficient(resource: str) -> Reason:
    """Return the reason for too little of the resource; its code is for example ``insufficient_ephemeral_storage``."""
    return Reason(f"insufficient_{resource.replace('-', '_')}", f"Insufficient {resource}")


def _not_ignored(pod: Pod, profile: SchedulerProfile) -> list[tuple[str, int]]:
    requests = _in_order(pod_requests(pod, from_status=False))
    return [(name, amount) for name, amount in requests if amount > 0 and not _ignores(profile, name)]


def _ignores(profile: SchedulerProfile, resource: str) -> bool:
    if not is_extended(resource):
        return False
    return resource in profile.ignored_resources or resource.partition("/")[0] in profile.ignored_resource_groups


def _in_order(requests: dict[str, int]) -> list[tuple[str, int]]:
    """Return cpu, memory and ephemeral storage first, then the others by name. Resources that only a DeviceClass can offer are left out."""
    basic = [(name, requests[name]) for name in BASIC_RESOURCES if name in requests]
    others = sorted(item for item in requests.items() if item[0] not in BASIC_RESOURCES and not item[0].startswith(DEVICE_CLASS_PREFIX))
    return basic + others


DEVICES: Reasons = (Reason("device_class", "a DeviceClass offers an extended resource; whether it has devices there is not checked"),)
NOT_READABLE: Reasons = (
    Reason("deviceclasses_not_readable", "whether a DeviceClass offers an extended resource is not known: deviceclasses could not be read"),
)


def device_class_resources(pod: Pod, classes: Iterable[DeviceClass] | None) -> Collection[str]:
    """Return the pod's extended resources that a DeviceClass offers.

    If the classes could not be read (None), return all extended resources of the pod.
    """
    asked = extended_resources(pod)
    return asked if classes is None else asked.intersection(known.spec.extended_resource_name for known in classes)


def device_unknowns(
    pod: Pod, classes: Iterable[DeviceClass] | None, profile: SchedulerProfile, devices: Collection[str]
) -> t.Callable[[NodeInfo], Reasons] | None:
    """Return a function that returns the unknown reason for nodes that would need one of ``devices`` (``device_class_resources``).

    Return None if the pod requests none of them.
    """
    needs = needs_devices(pod, profile, devices)
    if needs is None:
        return None
    unknown = NOT_READABLE if classes is None else DEVICES
    return lambda info: unknown if needs(info) else PASSED
