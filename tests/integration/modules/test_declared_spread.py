# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that declare spread constraints with DoNotSchedule: what is foretold of a restart, and what a real one comes to."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, only_node, pile_up, read, restart, wait_rolled_out, wait_until, workers

HOST = "kubernetes.io/hostname"
SLOT = "test.onprem/slot"
SETTLED_S = 2


@pytest.fixture
def slots(cluster: Cluster) -> Iterator[Slots]:
    """Domains of a topology key of our own, gone after the test."""
    found = Slots(cluster)
    yield found
    found.remove_all()


class Slots:
    """Gives nodes a slot: each a domain of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: set[str] = set()

    def add(self, *nodes: str) -> None:
        """Each of the nodes becomes a domain."""
        for node in nodes:
            self._write(node, node)
        self._nodes.update(nodes)

    def remove(self, node: str) -> None:
        """The node is in no domain any more."""
        self._write(node, None)
        self._nodes.discard(node)

    def remove_all(self) -> None:
        """As it was before."""
        for node in list(self._nodes):
            self.remove(node)

    def _write(self, node: str, value: str | None) -> None:
        self._cluster.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {SLOT: value}}})


def constrained(namespace: str, name: str, replicas: int, key: str, **constraint: Any) -> dict[str, Any]:
    """A Deployment whose pods, and all others with the same label group, differ by at most one between domains."""
    selector = {"matchLabels": {"group": name}}
    hard = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **constraint}
    found = deployment(namespace, name, replicas, template={"topologySpreadConstraints": [hard]})
    found["spec"]["template"]["metadata"]["labels"]["group"] = name
    return found


@pytest.mark.parametrize("keys", [[], ["pod-template-hash"]])
def test_a_restart_spreads_what_was_piled_up_while_nodes_were_closed(
    cluster: Cluster, modules: Modules, namespace: str, keys: list[str]
) -> None:
    web = constrained(namespace, "web", 3, HOST, nodeTaintsPolicy="Honor", matchLabelKeys=keys)
    pile_up(cluster, web)
    found = _judged(modules, namespace)
    assert (found["verdict"], found["restart_helps"], found["blockers"]) == ("collapsed", True, [])
    done = modules.restart(workloads=[identity(web)])["workloads"][0]
    assert (done["action"], done["outcome"]) == ("restarted", "improved"), done
    assert max(_by_node(cluster, web).values()) == 1


def test_a_domain_that_is_closed_to_the_pods_blocks_the_restart(cluster: Cluster, modules: Modules, namespace: str, slots: Slots) -> None:
    first, second, *others = workers(cluster)
    web = constrained(namespace, "web", 3, SLOT)
    slots.add(first)
    pile_up(cluster, web, node=first)
    # The taint of the control plane closes it to the pods, but not to the count, in which it is empty for ever.
    slots.add(second, "control-plane-1")
    found = _judged(modules, namespace)
    assert (found["verdict"], found["restart_helps"]) == ("collapsed", False)
    assert modules.check(namespace)["restartable"] == []
    assert _restart_that_hangs(cluster, web) == _texts(found)
    assert _texts(found) == {
        "node(s) didn't match pod topology spread constraints (missing required label)": len(others),
        "node(s) didn't match pod topology spread constraints": 2,
        "node(s) had untolerated taint(s)": 1,
    }


@pytest.mark.parametrize("third_domain", [False, True])
def test_fewer_domains_than_wanted_block_the_restart(
    cluster: Cluster, modules: Modules, namespace: str, slots: Slots, third_domain: bool
) -> None:
    first, second, third, *_others = workers(cluster)
    web = constrained(namespace, "web", 3, SLOT, minDomains=3)
    slots.add(first, second, third)
    _pile_up_beside_others(cluster, web, first, beside=[second, third])
    if not third_domain:
        slots.remove(third)
    found = _judged(modules, namespace)
    assert (found["verdict"], found["restart_helps"]) == ("collapsed", third_domain)
    if third_domain:
        done = modules.restart(workloads=[identity(web)])["workloads"][0]
        assert (done["action"], done["outcome"]) == ("restarted", "improved"), done
    else:
        assert _restart_that_hangs(cluster, web) == _texts(found)
        slots.add(third)
        wait_rolled_out(cluster, web)
    assert max(_by_node(cluster, web).values()) < 3


def _judged(modules: Modules, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = modules.check(namespace)["workloads"][0]
    return found


def _texts(judged: dict[str, Any]) -> dict[str, int]:
    return {blocker["message"]: blocker["nodes"] for blocker in judged["blockers"]}


def _pile_up_beside_others(cluster: Cluster, manifest: dict[str, Any], node: str, *, beside: list[str]) -> None:
    """Pods that count as well lie on the nodes ``beside``, until all replicas are on the one node."""
    metadata = manifest["metadata"]
    spec = {**manifest["spec"]["template"]["spec"], "topologySpreadConstraints": []}
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"beside-{other}-{number}", "namespace": metadata["namespace"], "labels": {"group": metadata["name"]}},
                "spec": {**spec, "nodeName": other},
            }
            for other in beside
            for number in range(2)
        ]
    )
    with only_node(cluster, node):
        cluster.apply(manifest)
        wait_rolled_out(cluster, manifest)
    cluster.kubectl("delete", "pods", "-n", metadata["namespace"], "-l", "!app", "--grace-period=0", "--force")


def _restart_that_hangs(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, int]:
    """Restart without asking anybody; the scheduler's words about the pod that then finds no node, with the nodes of each."""
    restart(cluster, manifest)
    replicas = manifest["spec"]["replicas"]

    def hangs() -> bool:
        # One new pod has replaced an old one, and the next is refused for what the first has changed.
        status = read(cluster, manifest)["status"]
        return status.get("updatedReplicas") == 2 and status.get("readyReplicas") == replicas and bool(_refusals(cluster, manifest))

    wait_until(hangs, what="a new pod without a node")
    time.sleep(SETTLED_S)
    assert hangs(), "the rollout continued"
    return _counts(_refusals(cluster, manifest)[0])


def _refusals(cluster: Cluster, manifest: dict[str, Any]) -> list[str]:
    conditions = [condition for pod in _pods(cluster, manifest) for condition in pod["status"].get("conditions", ())]
    return [condition["message"] for condition in conditions if condition.get("reason") == "Unschedulable"]


def _counts(message: str) -> dict[str, int]:
    """The reasons of ``0/7 nodes are available: 1 reason, 6 other reason. preemption: ...``"""
    reasons = message.partition("available: ")[2].partition(". ")[0].removesuffix(".")
    return {text: int(count) for count, text in re.findall(r"(\d+) (.+?)(?:, (?=\d)|$)", reasons)}


def _by_node(cluster: Cluster, manifest: dict[str, Any]) -> Counter[str]:
    return Counter(pod["spec"]["nodeName"] for pod in _pods(cluster, manifest) if "deletionTimestamp" not in pod["metadata"])


def _pods(cluster: Cluster, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = manifest["metadata"]
    found: list[dict[str, Any]] = cluster.get(f"/api/v1/namespaces/{metadata['namespace']}/pods?labelSelector=app%3D{metadata['name']}")[
        "items"
    ]
    return found
