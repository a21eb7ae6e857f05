# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the new pod is outside the limits of a LimitRange. Source: kubernetes ``plugin/pkg/admission/limitranger/admission.go``."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ....model.api.meta import ResourceList
from ....model.api.namespace import LimitRange, LimitRangeItem
from ....model.api.pod import Pod
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ....model.values.quantity import NANO, parse_quantity
from ....scheduler.pod_requests import quota_amount
from .pod_resources import container_resources


def limit_range_violation(pod: Pod, namespace: str, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the limit that the pod or one of its containers exceeds. None if it exceeds none."""
    limits = snapshot.once(_limits_by_namespace)
    if namespace not in limits:
        limits[namespace] = _Limits.of(snapshot.limit_ranges_by_namespace.get(namespace, ()))
    beyond = _beyond_of_containers(pod, limits[namespace].of_container) or _beyond_of_pod(pod, limits[namespace].of_pod)
    return Reason("limit_range", f"LimitRange {beyond}") if beyond else None


def _limits_by_namespace(_snapshot: ClusterSnapshot) -> dict[str, _Limits]:
    """Return an empty cache that ``limit_range_violation`` fills."""
    return {}


class _Limit(t.NamedTuple):
    """The tightest bound of one resource. ``name`` is the name of its LimitRange. ``text`` is the bound as it is written there."""

    amount: int
    text: str
    name: str


class _Tightest:
    """The tightest bound of each resource, over all limits of a namespace for pods or for containers."""

    def __init__(self) -> None:
        self.most: dict[str, _Limit] = {}
        self.least: dict[str, _Limit] = {}
        self.ratio: dict[str, _Limit] = {}

    def add(self, item: LimitRangeItem, name: str) -> None:
        """Add an item of the LimitRange ``name``."""
        for bounds, texts, sign in ((self.most, item.max, 1), (self.least, item.min, -1), (self.ratio, item.max_limit_request_ratio, 1)):
            for resource, text in (texts or {}).items():
                amount = parse_quantity(text)
                if resource not in bounds or (bounds[resource].amount - amount) * sign > 0:
                    bounds[resource] = _Limit(amount, text, name)


class _Limits(t.NamedTuple):
    """The limits of a namespace for pods and for containers."""

    of_pod: _Tightest
    of_container: _Tightest

    @classmethod
    def of(cls, ranges: Iterable[LimitRange]) -> _Limits:
        """Return the limits of the namespace's LimitRanges."""
        limits = cls(_Tightest(), _Tightest())
        by_type = {"Pod": limits.of_pod, "Container": limits.of_container}
        for limit_range in ranges:
            for item in limit_range.spec.limits or ():
                if item.type in by_type:
                    by_type[item.type].add(item, limit_range.metadata.name)
        return limits


def _beyond_of_containers(pod: Pod, limits: _Tightest) -> str:
    for container in pod.spec.all_containers:
        for part in ("requests", "limits"):
            amounts = {name: parse_quantity(text) for name, text in container_resources(container, part).items()}
            beyond = _beyond(limits, amounts, f"container {container.name} has {part}")
            if beyond:
                return beyond
        ratio = _beyond_ratio(limits, container_resources(container, "limits"), container_resources(container, "requests"))
        if ratio:
            return f"{ratio} in container {container.name}"
    return ""


def _beyond_of_pod(pod: Pod, limits: _Tightest) -> str:
    for part, needed, word in (("requests", limits.least, "at least"), ("limits", limits.most, "at most")):
        amounts = {name: quota_amount(pod, name, limits=part == "limits") for name in limits.most.keys() | limits.least.keys()}
        # Containers get the defaults of their LimitRange before, and pods have none.
        for resource, bound in sorted(needed.items()):
            if not amounts[resource]:
                return f"{bound.name} allows {word} {bound.text} {resource}, and the pod has no {part} of it"
        beyond = _beyond(limits, {name: amount for name, amount in amounts.items() if amount}, f"the pod has {part}")
        if beyond:
            return beyond
    return ""


def _beyond(limits: _Tightest, amounts: dict[str, int], said: str) -> str:
    for resource, amount in sorted(amounts.items()):
        for bounds, word, sign in ((limits.most, "at most", 1), (limits.least, "at least", -1)):
            bound = bounds.get(resource)
            if bound is not None and (amount - bound.amount) * sign > 0:
                return f"{bound.name} allows {word} {bound.text} {resource}, and {said} outside of this limit"
    return ""


def _beyond_ratio(limits: _Tightest, given: ResourceList, requests: ResourceList) -> str:
    for resource in sorted(limits.ratio.keys() & given.keys() & requests.keys()):
        request, bound = parse_quantity(requests[resource]), limits.ratio[resource]
        if request and parse_quantity(given[resource]) * NANO > bound.amount * request:
            return f"{bound.name} allows a limit of {resource} of at most {bound.text} times the request, which is exceeded"
    return ""
