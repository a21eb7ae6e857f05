# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The requests of a pod are counted in the scheduler's units."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.quantity import QuantityError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.pod_requests import node_allocatable, pod_requests

from tests.unit.support.objects import container, node, pod, sidecar

GI = 2**30


def cpu(amount: str) -> dict[str, str]:
    return {"cpu": amount}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container(cpu("100m")), container(cpu("1"))]}, 1100, id="containers add up"),
        pytest.param(
            {"containers": [container(cpu("1"))], "initContainers": [container(cpu("3")), container(cpu("2"))]}, 3000, id="largest init"
        ),
        pytest.param({"containers": [container(cpu("1"))], "initContainers": [sidecar(cpu("2"))]}, 3000, id="sidecar adds"),
        pytest.param(
            {"containers": [container(cpu("1"))], "initContainers": [sidecar(cpu("1")), container(cpu("4"))]},
            5000,
            id="init beside sidecar",
        ),
        pytest.param(
            {"containers": [container(cpu("1"))], "initContainers": [container(cpu("4")), sidecar(cpu("1"))]},
            4000,
            id="init before sidecar",
        ),
        pytest.param(
            {"containers": [container(cpu("1"))], "initContainers": [sidecar(cpu("2")), sidecar(cpu("3"))]}, 6000, id="two sidecars"
        ),
        pytest.param({"containers": [container(cpu("1"))], "overhead": cpu("250m")}, 1250, id="overhead adds"),
        pytest.param({"containers": [container(cpu("1"))], "resources": {"requests": cpu("3")}}, 3000, id="pod level has precedence"),
        pytest.param(
            {"containers": [container(cpu("1"))], "resources": {"requests": cpu("3")}, "overhead": cpu("1")},
            4000,
            id="overhead on pod level",
        ),
        pytest.param({"containers": [container()], "resources": {"limits": cpu("2")}}, 2000, id="pod limit stands for request"),
        pytest.param({"containers": [container(cpu("1"))], "resources": {"limits": cpu("2")}}, 1000, id="containers before pod limit"),
        pytest.param({"containers": [container(limits=cpu("2"))]}, 2000, id="limit stands for request"),
        pytest.param({"containers": [container(cpu("1"), limits=cpu("2"))]}, 1000, id="request before limit"),
        pytest.param({"containers": [container(cpu("0.1m")), container(cpu("0.1m"))]}, 1, id="rounded up once, on the sum"),
        pytest.param({"containers": [container()]}, None, id="asks for nothing"),
    ],
)
def test_cpu_is_summed_in_thousandths(spec: dict[str, t.Any], expected: int | None) -> None:
    assert pod_requests(pod(**spec)).get("cpu") == expected


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        ("memory", "1.5Gi", GI * 3 // 2),
        ("memory", "100m", 1),
        ("ephemeral-storage", "1k", 1000),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        ("example.com/gpu", "2", 2),
        ("attachable-volumes-csi-x", "2", 2),
        ("requests.example.com/gpu", "2", None),
        ("storage", "1Gi", None),
        ("pods", "3", None),
    ],
)
def test_other_resources_are_whole_units(name: str, amount: str, expected: int | None) -> None:
    assert pod_requests(pod({name: amount})).get(name) == expected


def test_pod_level_requests_do_not_cover_extended_resources() -> None:
    found = pod_requests(pod({"example.com/gpu": "1", "cpu": "1"}, resources={"requests": {"cpu": "2", "example.com/gpu": "5"}}))
    assert found == {"cpu": 2000, "example.com/gpu": 1}


def test_pod_level_requests_are_completed_from_containers_only_beside_limits() -> None:
    containers = [container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "1"})]
    assert pod_requests(pod(containers=containers, resources={"requests": {"cpu": "3"}})) == {"cpu": 3000, "memory": GI}
    assert pod_requests(pod(containers=containers, resources={"limits": {"cpu": "4", "memory": "4Gi"}})) == {"cpu": 2000, "memory": GI}


def test_huge_pages_of_containers_count_beside_pod_level_requests() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    containers = [container(pages, limits=pages), container(pages, limits=pages)]
    assert pod_requests(pod(containers=containers, resources={"limits": {"cpu": "1"}}))["hugepages-2Mi"] == 8 * 2**20


def resized(spec: str, actuated: str | None, allocated: str | None, *, reason: str = "", **more: t.Any) -> dict[str, int]:
    status: dict[str, t.Any] = {"phase": "Running"}
    entry = {
        "name": "c",
        "resources": {"requests": cpu(actuated)} if actuated else {},
        "allocatedResources": cpu(allocated) if allocated else None,
    }
    status["initContainerStatuses" if "initContainers" in more else "containerStatuses"] = [entry]
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    more.setdefault("containers", [container(cpu(spec), name="c")])
    return pod_requests(pod(on="node-1", status=status, **more))


@pytest.mark.parametrize(
    ("spec", "actuated", "allocated", "reason", "expected"),
    [
        ("1", "2", "1", "", 2000),
        ("1", "1", "3", "", 3000),
        ("4", "1", "1", "Deferred", 4000),
        ("4", "1", "2", "Infeasible", 2000),
        ("1", None, None, "", 1000),
        ("1", None, "2", "", 2000),
    ],
)
def test_a_resized_container_counts_with_the_largest(spec: str, actuated: str, allocated: str, reason: str, expected: int) -> None:
    assert resized(spec, actuated, allocated, reason=reason)["cpu"] == expected


def test_the_status_of_a_sidecar_counts_and_that_of_an_init_container_does_not() -> None:
    others: dict[str, t.Any] = {"containers": [container(cpu("1"))]}
    assert resized("", "3", None, initContainers=[sidecar(cpu("1"), name="c")], **others)["cpu"] == 4000
    assert resized("", "3", None, initContainers=[container(cpu("1"), name="c")], **others)["cpu"] == 1000


def test_a_resized_pod_counts_with_its_pod_level_status() -> None:
    spec: dict[str, t.Any] = {"resources": {"requests": {"cpu": "2"}}}
    status = {"phase": "Running", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}
    assert pod_requests(pod({"cpu": "1"}, on="node-1", status=status, **spec))["cpu"] == 3000
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    infeasible = {"phase": "Running", "resources": {"requests": {}}, "conditions": [pending]}
    assert pod_requests(pod({"cpu": "1"}, on="node-1", status=infeasible, **spec))["cpu"] == 0


def test_a_pod_without_a_node_counts_by_its_spec() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": cpu("3")}}]}
    assert pod_requests(pod(containers=[container(cpu("1"), name="c")], status=status), from_status=False) == {"cpu": 1000}


def test_a_template_counts_as_the_pod_that_it_makes() -> None:
    template = decode_json(PodTemplate, encode_json({"spec": {"containers": [container(limits={"cpu": "2", "memory": "1Gi"})]}}))
    assert pod_requests(pod_of_template("default", template)) == {"cpu": 2000, "memory": GI}


def test_a_node_offers_pods_and_what_is_compared() -> None:
    found = node_allocatable(node(allocatable={"cpu": "3920m", "example.com/gpu": "2", "storage": "1Gi"}))
    assert found == {"cpu": 3920, "memory": 8 * GI, "ephemeral-storage": 100 * GI, "pods": 110, "example.com/gpu": 2}


def test_a_malformed_quantity_names_its_object() -> None:
    broken = pod({"cpu": "one"})
    with pytest.raises(QuantityError, match=f"Pod default/{broken.metadata.name}: 'one'"):
        pod_requests(broken)
    with pytest.raises(QuantityError, match="Node node-1: 'lots'"):
        node_allocatable(node(allocatable={"memory": "lots"}))
