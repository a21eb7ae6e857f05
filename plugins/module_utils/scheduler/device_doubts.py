# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Extended resources that a DeviceClass stands for: where no device plugin offers them, dynamic resource allocation looks for devices.

Source: kubernetes ``plugins/noderesources/fit.go`` (shouldDelegateResourceToDRA). What it would find is not judged.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection

from ..model.api.pod import Pod, extended_resources
from ..model.reason import PASSED, Reason, Reasons
from .filters.node_resources import needs_devices
from .node_info import NodeInfo
from .placement import Placement
from .profile import Profile

DEVICES: Reasons = (Reason("device_class", "a DeviceClass offers an extended resource; whether it has devices there is not judged"),)
NOT_READABLE: Reasons = (
    Reason("deviceclasses_not_readable", "whether a DeviceClass offers an extended resource is not known: deviceclasses could not be read"),
)


def resources(pod: Pod, placement: Placement) -> Collection[str]:
    """Those of the pod's extended resources that a DeviceClass offers, or may offer where the classes could not be read."""
    asked = extended_resources(pod)
    classes = placement.snapshot.device_classes
    return asked if classes is None else asked.intersection(known.spec.extended_resource_name for known in classes)


def prepare(pod: Pod, placement: Placement, profile: Profile, devices: Collection[str]) -> t.Callable[[NodeInfo], Reasons] | None:
    """The doubt about nodes that would need one of ``devices`` (``resources``); None where none would."""
    needs = needs_devices(pod, profile, devices)
    if needs is None:
        return None
    doubt = NOT_READABLE if placement.snapshot.device_classes is None else DEVICES
    return lambda info: doubt if needs(info) else PASSED
