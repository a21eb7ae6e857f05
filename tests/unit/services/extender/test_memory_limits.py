# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod with too many labels or resources, or with a very long owner, does not take the memory of the extender."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_object, encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import RequestPod
from ansible_collections.onprem.kube_scheduling.services.extender.memory_limits import (
    MAX_LABEL_CHARACTERS,
    MAX_LABELS,
    MAX_NAME,
    MAX_RESOURCE_CHARACTERS,
    MAX_RESOURCES,
    limited_labels,
    limited_requests,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_objects import (
    SharedParts,
    WatchedPod,
    pod_record_of,
)

from tests.unit.services.extender.extender_objects import PROFILE, DemandAgent, engine, pod, pod_view, profile, view

MANY = {f"label-{number:05}": "x" * 40 for number in range(20_000)}


def test_ordinary_labels_stay_the_same_object() -> None:
    labels = {"app": "web", "pod-template-hash": "5d9c", "version": "3"}
    assert limited_labels(labels) is labels


@pytest.mark.parametrize(
    "labels",
    [MANY, {f"label-{number}": "" for number in range(MAX_LABELS + 1)}, {"a": "x" * MAX_LABEL_CHARACTERS, "b": "y"}],
    ids=["both", "number", "characters"],
)
def test_too_many_labels_are_limited_and_those_of_agents_stay(labels: dict[str, str]) -> None:
    kept = limited_labels({**labels, "podtype": "batch", "app": "web", "name": "web-1"})
    assert {"podtype": "batch", "app": "web", "name": "web-1"}.items() <= kept.items()
    assert len(kept) <= MAX_LABELS
    assert sum(len(name) + len(value) for name, value in kept.items()) <= MAX_LABEL_CHARACTERS
    assert len(kept) > 3


def test_the_order_of_the_labels_does_not_matter() -> None:
    assert limited_labels(MANY) == limited_labels(dict(reversed(MANY.items())))


def test_the_pod_of_a_kept_demand_has_limited_labels() -> None:
    one = engine(profile(DemandAgent()))
    one.on_view(view({"a": 9.0}))
    state = one.state_for(PROFILE)
    assert state is not None
    found = state.scores(lambda: replace(pod_view(), labels=MANY))
    assert found.pod is not None and len(found.pod.labels) <= MAX_LABELS


def test_a_watched_pod_has_limited_labels() -> None:
    body = pod()
    body["metadata"]["labels"] = {**MANY, "app": "web"}
    record = pod_record_of(decode_object(WatchedPod, encode_json(body)), SharedParts())
    assert record.labels["app"] == "web" and len(record.labels) <= MAX_LABELS


def hostile_pod() -> dict[str, t.Any]:
    """A pod with 5,000 resources with long names, and an owner whose name has a megabyte."""
    body = pod(cpu="2")
    body["spec"]["containers"][0]["resources"]["requests"].update({f"x.example.org/{number:05}-{'x' * 50}": "1" for number in range(5000)})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "o" * 2**20, "uid": "u", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    return body


def test_ordinary_requests_stay_the_same_object() -> None:
    requests = {"cpu": 100, "memory": 2**30, "nvidia.com/gpu": 1}
    assert limited_requests(requests) is requests


@pytest.mark.parametrize("length", [1, 300])
def test_too_many_resources_are_limited_and_the_ordinary_ones_stay(length: int) -> None:
    kept = limited_requests({**{f"{number:04}{'x' * length}": 1 for number in range(1000)}, "memory": 3, "ephemeral-storage": 4, "cpu": 2})
    assert {"cpu": 2, "memory": 3, "ephemeral-storage": 4}.items() <= kept.items()
    assert 3 < len(kept) <= MAX_RESOURCES and sum(map(len, kept)) <= MAX_RESOURCE_CHARACTERS


def test_a_watched_pod_has_limited_resources_and_a_limited_owner() -> None:
    record = pod_record_of(decode_object(WatchedPod, encode_json(hostile_pod())), SharedParts())
    assert record.demand.requests["cpu"] == 2000 and len(record.demand.requests) <= MAX_RESOURCES
    assert record.owner == "o" * MAX_NAME


def test_the_pod_of_a_request_has_limited_resources_and_a_limited_owner() -> None:
    found = RequestPod(encode_json(hostile_pod())).view
    assert found.demand.requests["cpu"] == 2000 and len(found.demand.requests) <= MAX_RESOURCES
    assert found.owner == "o" * MAX_NAME
