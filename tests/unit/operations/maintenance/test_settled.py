# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions for which a maintenance waits: nodes, rollouts and replicas."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES, WORKLOADS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.polling import polled
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.maintenance.settled import node_texts, workload_text

SETTLED = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}


def text_of(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> str:
    metadata = {"name": "web", "namespace": "app", "generation": 2}
    item = {"kind": kind, "metadata": metadata, "spec": {"replicas": 3, **spec}, "status": {**SETTLED, **status}}
    return workload_text(WORKLOADS[kind].decode(encode_json(item)))


@pytest.mark.parametrize(
    ("kind", "spec", "status", "text"),
    [
        ("Deployment", {}, {}, ""),
        ("Deployment", {}, {"observedGeneration": 1}, "Deployment app/web is rolling: 3 of 3 replicas are updated"),
        ("Deployment", {}, {"updatedReplicas": 1}, "Deployment app/web is rolling: 1 of 3 replicas are updated"),
        ("Deployment", {}, {"replicas": 4}, "Deployment app/web is rolling: 1 old replicas are not gone yet"),
        ("Deployment", {}, {"availableReplicas": 2}, "Deployment app/web has 2 of 3 replicas available"),
        ("Deployment", {"paused": True}, {"updatedReplicas": 1, "replicas": 4}, ""),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, {"updatedReplicas": 0}, ""),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 2}}}, {"updatedReplicas": 1}, ""),
        ("StatefulSet", {}, {"updatedReplicas": 1}, "StatefulSet app/web is rolling: 1 of 3 replicas are updated"),
    ],
)
def test_workload_is_settled_when_nothing_rolls_and_all_replicas_are_available(
    kind: str, spec: dict[str, Any], status: dict[str, Any], text: str
) -> None:
    assert text_of(kind, spec, status) == text


def test_node_that_is_not_ready_or_cordoned_is_named() -> None:
    def texts(condition: list[dict[str, str]], **spec: Any) -> list[str]:
        return node_texts(NODES.decode(encode_json({"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": condition}})))

    assert texts([{"type": "Ready", "status": "True"}]) == []
    cordoned = "Node n1 is cordoned: run kubectl uncordon n1, or add it to after_maintenance_ignored_nodes"
    unknown = {"type": "Ready", "status": "Unknown", "message": "no\nnews"}
    assert texts([unknown], unschedulable=True) == ["Node n1 is not Ready: no news", cordoned]
    assert texts([]) == ["Node n1 is not Ready"]


def test_only_an_error_of_the_first_read_ends_the_wait() -> None:
    answers: list[Any] = [["Node n1 is not Ready"], UnreachableError("no route"), []]

    def read() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def wait(limit_s: float) -> list[str]:
        return polled(read, lambda missing: not missing, limit_s, poll_s=0, of_error=lambda error: [str(error)])

    assert wait(60) == []
    answers[:] = [["Node n1 is not Ready"]]
    assert wait(0) == ["Node n1 is not Ready"]
    answers[:] = [UnreachableError("no route")]
    with pytest.raises(UnreachableError):
        wait(60)
