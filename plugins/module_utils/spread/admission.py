# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Why the namespace's admission would turn down any new pod of a workload: then a pod that goes is gone for good.

Sources: kubernetes ``pkg/quota/v1/evaluator/core/pods.go`` (Constraints), ``plugin/pkg/admission/limitranger/admission.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ..model.objects import Container, LimitRangeItem, Pod, ResourceList, Workload
from ..model.quantity import NANO, parse_quantity
from ..model.reasons import Reason
from ..model.snapshot import ClusterSnapshot
from ..scheduling.resources import quota_amount
from .next_pod import next_pod
from .quota import counts, quota_kind

_COMPUTE = ("cpu", "memory")
_NAMED = {name: ("requests", name) for name in _COMPUTE}
_NAMED.update({f"{part}.{name}": (part, name) for part in ("requests", "limits") for name in _COMPUTE})


def not_admitted(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """The quota or limit range that no new pod of the workload would pass; None where it would pass all."""
    pod = next_pod(workload, snapshot).pod
    key = workload.metadata.namespace, quota_kind(pod)
    known = snapshot.once(_answers)
    if key not in known:
        known[key] = _turned_down(pod, workload.metadata.namespace, snapshot)
    found = known[key]
    return Reason(found.code, f"{found.text}: no pod of {workload} would be admitted") if found is not None else None


def _answers(_snapshot: ClusterSnapshot) -> dict[Hashable, t.Optional[Reason]]:
    """The answers for pods that quotas and limit ranges cannot tell apart, by namespace and kind; filled when they are asked for."""
    return {}


def _turned_down(pod: Pod, namespace: str, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    for quota in snapshot.quotas_by_namespace.get(namespace, ()) if pod.spec.resources is None else ():
        if not counts(quota, pod):
            continue
        for hard in quota.status.hard or quota.spec.hard or ():
            part, resource = _NAMED.get(hard, ("", ""))
            lacking = next((c for c in pod.spec.all_containers if part and resource not in _given(c, part)), None)
            if lacking is not None:
                said = f"wants {hard} of every container, and container {lacking.name} has none"
                return Reason("quota", f"ResourceQuota {quota.metadata.name} {said}")
    for limit_range in snapshot.limit_ranges_by_namespace.get(namespace, ()):
        for item in limit_range.spec.limits or ():
            beyond = (
                _beyond_of_pod(pod, item) if item.type == "Pod" else _beyond_of_containers(pod, item) if item.type == "Container" else ""
            )
            if beyond:
                return Reason("limit_range", f"LimitRange {limit_range.metadata.name} {beyond}")
    return None


def _given(container: Container, part: str) -> ResourceList:
    """The container's limits, or its requests with those that the API server makes of limits."""
    resources = container.resources
    if resources is None:
        return {}
    limits = resources.limits or {}
    return limits if part == "limits" else {**limits, **(resources.requests or {})}


def _beyond_of_containers(pod: Pod, item: LimitRangeItem) -> str:
    for container in pod.spec.all_containers:
        for part in ("requests", "limits"):
            amounts = {name: parse_quantity(text) for name, text in _given(container, part).items()}
            beyond = _beyond(item, amounts, f"container {container.name} has {part}")
            if beyond:
                return beyond
        ratio = _beyond_ratio(item, _given(container, "limits"), _given(container, "requests"))
        if ratio:
            return f"{ratio} in container {container.name}"
    return ""


def _beyond_of_pod(pod: Pod, item: LimitRangeItem) -> str:
    names = {*(item.max or ()), *(item.min or ())}
    for part in ("requests", "limits"):
        amounts = {name: quota_amount(pod, name, limits=part == "limits") for name in names}
        beyond = _beyond(item, {name: amount for name, amount in amounts.items() if amount}, f"the pod has {part}")
        if beyond:
            return beyond
    return ""


def _beyond(item: LimitRangeItem, amounts: dict[str, int], said: str) -> str:
    for name, amount in amounts.items():
        for bounds, word, sign in ((item.max, "at most", 1), (item.min, "at least", -1)):
            bound = (bounds or {}).get(name)
            if bound is not None and (amount - parse_quantity(bound)) * sign > 0:
                return f"allows {word} {bound} {name}, and {said} beyond it"
    return ""


def _beyond_ratio(item: LimitRangeItem, limits: ResourceList, requests: ResourceList) -> str:
    for name, ratio in (item.max_limit_request_ratio or {}).items():
        if name in limits and name in requests:
            request = parse_quantity(requests[name])
            if request and parse_quantity(limits[name]) * NANO > parse_quantity(ratio) * request:
                return f"allows a limit of {name} of at most {ratio} times the request, which is exceeded"
    return ""
