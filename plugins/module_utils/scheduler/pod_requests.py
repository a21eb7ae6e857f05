# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The requests of a pod and the allocatable of a node, in the scheduler's units: thousandths of a cpu, whole units of everything else.

Rules of component-helpers ``resource/helpers.go`` (PodRequests) and kubernetes ``pkg/scheduler/framework/types.go`` (Resource).
"""

from __future__ import annotations

import typing as t
from functools import lru_cache

from ..model.api.meta import ResourceList
from ..model.api.node import Node
from ..model.api.pod import Container, ContainerStatus, Pod, is_sidecar
from ..model.codec import replace
from ..model.values.quantity import NANO, QuantityError, milli_value, parse_quantity, value

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
POD_SLOTS = "pods"
HUGE_PAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"

RESIZE_PENDING = "PodResizePending"
"""The condition of a pod whose requested resize was not granted yet."""

NanoAmounts = dict[str, int]
"""Resource name to nano-units. They are exact, so only the sum is rounded."""

SCORED_WITHOUT_REQUEST: NanoAmounts = {CPU: NANO // 10, MEMORY: 200 * 1024 * 1024 * NANO}
"""The requests of a container that has none, for scores (kubernetes ``pkg/scheduler/util/pod_resources.go``): 100m and 200Mi."""


def pod_requests(pod: Pod, *, from_status: bool = True) -> dict[str, int]:
    """Return the requests of the pod: cpu in thousandths, the rest in whole units, rounded up.

    Containers, init containers, restartable init containers, pod-level requests and overhead count. Requests that the API server would set
    for a template (limits without requests) are filled in the same way. With ``from_status`` a pod during a resize counts with the largest
    of its spec's requests, its allocated and its actual resources. For a pod that has no node yet the scheduler does not use the status.
    Raise QuantityError, which names the pod.
    """
    return _compared(_named_requests(pod, _Resize.of(pod) if from_status else None, {}))


def requests_for_score(pod: Pod) -> dict[str, int]:
    """Return the requests of a pod that has no node yet, as NodeResourcesFit counts them for scores.

    A container without a request counts with the default request. Pod-level requests do not count: kube-scheduler 1.36 does not enable them
    in the scorer of this plugin (kubernetes ``plugins/noderesources/fit.go``, getScorer, and ``resource_allocation.go``,
    calculatePodResourceRequest). Raise QuantityError, which names the pod.
    """
    without_pod_level = pod if pod.spec.resources is None else replace(pod, spec=replace(pod.spec, resources=None))
    return _compared(_named_requests(without_pod_level, None, SCORED_WITHOUT_REQUEST))


def scored_on_node(pod: Pod, requests: dict[str, int]) -> tuple[int, int]:
    """Return the cpu and the memory of a pod on a node, as the scores count them. ``requests``: the result of ``pod_requests``.

    With pod-level requests, a container requests something only if neither a container nor the pod requests the resource. Source:
    kubernetes ``pkg/scheduler/framework/types.go`` (CalculateResource, getNonMissingContainerRequests). Raise QuantityError.
    """
    defaults = SCORED_WITHOUT_REQUEST
    if _pod_level_requests(pod):
        defaults = {name: amount for name, amount in defaults.items() if name not in requests}
    counted = _compared(_named_requests(pod, _Resize.of(pod), defaults)) if defaults else requests
    return counted.get(CPU, 0), counted.get(MEMORY, 0)


def _named_requests(pod: Pod, resize: _Resize | None, defaults: NanoAmounts) -> NanoAmounts:
    try:
        return _requests(pod, resize, defaults)
    except QuantityError as error:
        raise QuantityError(f"Pod {pod.metadata.namespace}/{pod.metadata.name or '(of a template)'}: {error}") from error


def _compared(total: NanoAmounts) -> dict[str, int]:
    return {name: _in_scheduler_units(name, amount) for name, amount in total.items() if is_compared(name)}


def quota_amount(pod: Pod, resource: str, *, limits: bool) -> int:
    """Return the pod's request of one resource, or its limit, in nano-units, as quotas count it.

    Source: kubernetes ``pkg/quota/v1/evaluator/core/pods.go``. Raise QuantityError.
    """
    if not limits:
        return _requests(pod, None, {}).get(resource, 0)
    total = _aggregate(pod, lambda container: _parse(container.resources.limits if container.resources is not None else None))
    total.update(_parse(pod.spec.resources.limits if pod.spec.resources is not None else None))
    if total.get(resource):
        _add(total, _parse(pod.spec.overhead))
    return total.get(resource, 0)


def node_allocatable(node: Node) -> dict[str, int]:
    """Return the allocatable of the node, in the units of ``pod_requests``; ``pods`` is the number of pods that it may have.

    Raise QuantityError, which names the node.
    """
    try:
        amounts = _parse(node.status.allocatable)
    except QuantityError as error:
        raise QuantityError(f"Node {node.name}: {error}") from error
    return {name: _in_scheduler_units(name, amount) for name, amount in amounts.items() if name == POD_SLOTS or is_compared(name)}


def _in_scheduler_units(name: str, amount: int) -> int:
    return milli_value(amount) if name == CPU else value(amount)


@lru_cache(maxsize=4096)
def is_compared(name: str) -> bool:
    """Return whether the scheduler compares the resource: a basic, extended, huge page or attachable volume resource."""
    if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or "kubernetes.io/" in name:
        return True
    if name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX)):
        return True
    return "/" in name and not name.startswith("requests.")


def _parse(resources: ResourceList | None) -> NanoAmounts:
    return {name: parse_quantity(text) for name, text in resources.items()} if resources else {}


# --- the sum over a pod -----------------------------------------------------------------------------------------------


def _requests(pod: Pod, resize: _Resize | None, defaults: NanoAmounts) -> NanoAmounts:
    """``defaults``: the requests of a container that does not request the resource."""
    requests_of = _container_requests if resize is None else resize.container_requests
    total = _aggregate(pod, (lambda container: {**defaults, **requests_of(container)}) if defaults else requests_of)
    wanted = _pod_level_requests(pod)
    if wanted:
        effective = resize.pod_requests(wanted) if resize is not None else wanted
        total.update({name: effective.get(name, 0) for name in wanted})
    _add(total, _parse(pod.spec.overhead))
    return total


def _aggregate(pod: Pod, amounts_of: t.Callable[[Container], NanoAmounts]) -> NanoAmounts:
    """Return the largest amount that containers use at one time.

    It is either all containers that keep running, or one init container together with the sidecars before it.
    """
    running: NanoAmounts = {}
    for container in pod.spec.containers:
        _add(running, amounts_of(container))
    sidecars: NanoAmounts = {}
    starting: NanoAmounts = {}
    for container in pod.spec.init_containers or ():
        amounts = amounts_of(container)
        if is_sidecar(container):
            _add(running, amounts)
            _add(sidecars, amounts)
        else:
            together = dict(sidecars)
            _add(together, amounts)
            _raise_to(starting, together)
    _raise_to(running, starting)
    return running


def _container_requests(container: Container) -> NanoAmounts:
    """Return the requests of the spec. A limit without a request counts as the request (kubernetes ``core/v1/defaults.go``)."""
    resources = container.resources
    if resources is None:
        return {}
    return _parse({**resources.limits, **(resources.requests or {})} if resources.limits else resources.requests)


def _pod_level_requests(pod: Pod) -> NanoAmounts:
    """Return the pod-level requests as the API server completes them: from the containers' requests, then from the pod's limits."""
    resources = pod.spec.resources
    if resources is None or not (resources.requests or resources.limits):
        return {}
    requests, limits = _parse(resources.requests), _parse(resources.limits)
    if limits:
        for name, amount in _aggregate(pod, _container_requests).items():
            if name in (CPU, MEMORY):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    return {name: amount for name, amount in requests.items() if name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)}


# --- resized pods -----------------------------------------------------------------------------------------------------


class _Resize(t.NamedTuple):
    """The resources that the kubelet reports for a pod, by container; ``infeasible``: the requested resize will never be granted."""

    pod: Pod
    infeasible: bool
    statuses: dict[str, ContainerStatus]

    @classmethod
    def of(cls, pod: Pod) -> _Resize | None:
        """Return the reported resources of the pod. Return None if its status has none."""
        status = pod.status
        reported = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        # An init container that ends cannot be resized, so its status does not count.
        ending = {container.name for container in pod.spec.init_containers or () if not is_sidecar(container)}
        statuses = {container.name: container for container in reported if container.resources is not None and container.name not in ending}
        if not statuses and status.resources is None:
            return None
        pending = next((condition for condition in status.conditions or () if condition.type == RESIZE_PENDING), None)
        return cls(pod, pending is not None and pending.reason == "Infeasible", statuses)

    def container_requests(self, container: Container) -> NanoAmounts:
        """Return the container's requests, in nano-units. The container may be in a resize."""
        wanted = _container_requests(container)
        status = self.statuses.get(container.name)
        if status is None or status.resources is None:
            return wanted
        return self._effective(wanted, status.resources.requests, status.allocated_resources)

    def pod_requests(self, wanted: NanoAmounts) -> NanoAmounts:
        """Return the pod-level requests, in nano-units. The pod may be in a resize."""
        status = self.pod.status
        if status.resources is None:
            return wanted
        return self._effective(wanted, status.resources.requests, status.allocated_resources)

    def _effective(self, wanted: NanoAmounts, actuated: ResourceList | None, allocated: ResourceList | None) -> NanoAmounts:
        largest = {} if self.infeasible else dict(wanted)
        _raise_to(largest, _parse(actuated))
        _raise_to(largest, _parse(allocated))
        return largest


def _add(total: NanoAmounts, amounts: NanoAmounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: NanoAmounts, amounts: NanoAmounts) -> None:
    for name, amount in amounts.items():
        if name not in total or amount > total[name]:
            total[name] = amount
