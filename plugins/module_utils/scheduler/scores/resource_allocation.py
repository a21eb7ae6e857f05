# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The requested and allocatable resources of a node with one more pod (kubernetes ``plugins/noderesources/resource_allocation.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ...model.api.device import DEVICE_CLASS_PREFIX, DeviceClass, is_extended
from ...model.reason import PASSED, Reason, Reasons
from ...model.score_settings import WeightedResource
from ...model.well_known import BASIC_RESOURCES
from ..node_info import NodeInfo
from ..pod_requests import CPU, MEMORY
from .interface import AllocationFormula

_DEVICES: Reasons = (Reason("device_class", "the score of a node depends on the devices of a DeviceClass, which are not read"),)


class AllocationScore:
    """The score of a node by the resources that are requested on it, for one pod.

    ``requests``: the requests of the pod. ``counts_defaults``: cpu and memory of the other pods count as ``NodeInfo.scored`` returns them.
    """

    def __init__(
        self, resources: Iterable[WeightedResource], requests: Mapping[str, int], formula: AllocationFormula, *, counts_defaults: bool
    ) -> None:
        # A resource that only some nodes have counts only if the pod requests it.
        counted = [one for one in resources if requests.get(one.name) or one.name in BASIC_RESOURCES]
        self.resources = tuple((one.name, one.weight, requests.get(one.name, 0)) for one in counted)
        self._formula = formula
        self._counts_defaults = counts_defaults

    def __call__(self, info: NodeInfo) -> int:
        """Return the score of the node, 0 to 100."""
        allocatable, requested = info.allocatable, info.requested
        if self._counts_defaults:
            cpu, memory = info.scored()
            requested = {**requested, CPU: cpu, MEMORY: memory}
        uses = []
        for name, weight, amount in self.resources:
            offered = allocatable.get(name, 0)
            if offered:
                before = requested.get(name, 0)
                uses.append((weight, before + amount, before, offered))
        return self._formula(uses)

    def device_unknowns(self, classes: Iterable[DeviceClass] | None) -> t.Callable[[NodeInfo], Reasons] | None:
        """Return a function that returns the reason why the score of a node is not known: devices of a DeviceClass count for it.

        ``classes``: the DeviceClasses, or None if they could not be read. Return None if no resource of the pod can be such a device.
        Source: calculateResourceAllocatableRequest.
        """
        offered = None if classes is None else {known.spec.extended_resource_name for known in classes}
        names = [name for name, _weight, amount in self.resources if amount and _may_be_device(name, offered)]
        if not names:
            return None
        return lambda info: PASSED if all(info.allocatable.get(name, 0) for name in names) else _DEVICES


def _may_be_device(resource: str, offered: set[str] | None) -> bool:
    if resource.startswith(DEVICE_CLASS_PREFIX):
        return True
    return is_extended(resource) and (offered is None or resource in offered)
