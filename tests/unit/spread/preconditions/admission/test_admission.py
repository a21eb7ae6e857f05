# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Namespaces that admit no new pod: an evicted pod would not be replaced."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.admission import admission_violation

from tests.unit.support.cluster import workers

REQUESTS = {"requests": {"cpu": "100m"}}
BOTH = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "200m", "memory": "1Gi"}}


def said(asked: t.Any, *, quota: t.Any = None, items: t.Any = (), **spec: t.Any) -> str:
    cluster = workers(2)
    container = {"name": "main", "resources": asked}
    workload = cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [container], **spec}})
    if quota is not None:
        cluster.quota("compute", quota, {})
    for item in items:
        cluster.limit_range(**item)
    reason = admission_violation(workload, cluster.snapshot())
    return str(reason) if reason is not None else ""


@pytest.mark.parametrize(
    ("resources", "hard", "expected"),
    [
        (REQUESTS, {"limits.cpu": "100"}, "limits.cpu"),
        (REQUESTS, {"requests.cpu": "100"}, ""),
        (REQUESTS, {"cpu": "100"}, ""),
        (REQUESTS, {"memory": "1Gi"}, "memory"),
        (REQUESTS, {"requests.memory": "1Gi", "pods": "9"}, "requests.memory"),
        ({"limits": {"cpu": "1"}}, {"requests.cpu": "9"}, ""),
        (BOTH, {"limits.cpu": "9", "limits.memory": "9Gi", "requests.memory": "9Gi"}, ""),
        (REQUESTS, {"pods": "9", "requests.storage": "1Ti", "count/pods": "9"}, ""),
    ],
)
def test_a_quota_requires_of_every_container_the_resources_that_it_bounds(resources: t.Any, hard: t.Any, expected: str) -> None:
    wanted = f"required_resources: ResourceQuota compute requires {expected} of every container, and container main has none: "
    found = said(resources, quota=hard)
    assert found == (f"{wanted}no pod of Deployment app/web would be admitted" if expected else "")


def test_init_containers_count_and_pod_level_resources_stand_for_all() -> None:
    init = [{"name": "first"}]
    assert "container first" in said(BOTH, quota={"limits.cpu": "9"}, initContainers=init)
    assert said({}, quota={"limits.cpu": "9"}, resources={"limits": {"cpu": "1"}}) == ""


def test_what_a_limit_range_fills_in_is_not_missed() -> None:
    assert said(REQUESTS, quota={"limits.cpu": "9"}, items=[{"type": "Container", "default": {"cpu": "1"}}]) == ""


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "Container", "max": {"cpu": "50m"}}, "at most 50m cpu, and container main has requests"),
        ({"type": "Container", "max": {"cpu": "150m"}}, "at most 150m cpu, and container main has limits"),
        ({"type": "Container", "max": {"cpu": "200m", "memory": "1Gi"}}, ""),
        ({"type": "Container", "min": {"memory": "2Gi"}}, "at least 2Gi memory, and container main has requests"),
        ({"type": "Pod", "max": {"memory": "1Mi"}}, "at most 1Mi memory, and the pod has requests"),
        ({"type": "Pod", "max": {"memory": "1Gi"}, "min": {"cpu": "100m"}}, ""),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}, "of at most 1 times the request"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, ""),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, ""),
    ],
)
def test_bounds_of_a_limit_range(item: t.Any, expected: str) -> None:
    found = said(BOTH, items=[item])
    assert (expected in found and found.startswith("limit_range: ")) if expected else found == ""


@pytest.mark.parametrize(
    ("resources", "bound", "expected"),
    [
        ({}, {"min": {"cpu": "10m"}}, "at least 10m cpu, and the pod has no requests of it"),
        (REQUESTS, {"max": {"cpu": "9"}}, "at most 9 cpu, and the pod has no limits of it"),
        (REQUESTS, {"min": {"cpu": "10m"}}, ""),
    ],
)
def test_a_bound_of_pods_is_refused_without_its_request_or_limit(resources: t.Any, bound: t.Any, expected: str) -> None:
    found = said(resources, items=[{"type": "Pod", **bound}])
    assert expected in found if expected else found == ""
