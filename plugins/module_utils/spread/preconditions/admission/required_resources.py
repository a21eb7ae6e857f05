# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a ResourceQuota requires requests or limits of every container, and one container has none.

Source: kubernetes ``pkg/quota/v1/evaluator/core/pods.go`` (Constraints).
"""

from __future__ import annotations

import typing as t

from ....model.api.pod import Pod
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from .pod_resources import container_resources
from .quota_index import bounds_of

_COMPUTE = ("cpu", "memory")
_NAMED = {name: ("requests", name) for name in _COMPUTE}
_NAMED.update({f"{part}.{name}": (part, name) for part in ("requests", "limits") for name in _COMPUTE})


def required_resources_violation(pod: Pod, namespace: str, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the first requirement that a container of the pod does not meet. None if all containers meet all requirements."""
    bounds = bounds_of(pod, namespace, snapshot) if pod.spec.resources is None else {}
    for hard in sorted(_NAMED.keys() & bounds.keys(), key=lambda name: bounds[name].first):
        part, resource = _NAMED[hard]
        lacking = next((c for c in pod.spec.all_containers if resource not in container_resources(c, part)), None)
        if lacking is not None:
            text = f"ResourceQuota {bounds[hard].name} requires {hard} of every container, and container {lacking.name} has none"
            return Reason("required_resources", text)
    return None
