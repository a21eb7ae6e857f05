# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The free capacity of the nodes of a random cluster while pods are assigned to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import CaseNode

SPARE_PODS = 2
"""So many more pods fit on each node. One of them is the probe."""


class Capacity:
    """The free capacity by node. A request is cpu in millicores and memory in MiB."""

    def __init__(self, nodes: Iterable[CaseNode]) -> None:
        self._free = {node.name: [node.cpu_m, node.memory_mi, node.pods - SPARE_PODS] for node in nodes}

    def has(self, name: str, cpu_m: int, memory_mi: int) -> bool:
        """Return whether the node has the capacity for one more pod."""
        cpu, memory, pods = self._free[name]
        return cpu >= cpu_m and memory >= memory_mi and pods >= 1

    def free(self, name: str) -> tuple[int, int]:
        """Return the free cpu and memory of the node."""
        cpu, memory, _pods = self._free[name]
        return cpu, memory

    def use(self, name: str, cpu_m: int, memory_mi: int) -> None:
        """Subtract the request of a pod."""
        free = self._free[name]
        free[0] -= cpu_m
        free[1] -= memory_mi
        free[2] -= 1

    def release(self, name: str, cpu_m: int, memory_mi: int) -> None:
        """Add the request of a pod that is not created."""
        free = self._free[name]
        free[0] += cpu_m
        free[1] += memory_mi
        free[2] += 1

    def place_replicas(
        self, choices: Choices, nodes: Sequence[CaseNode], request: tuple[int, int], replicas: int, *, one_per_node: bool
    ) -> list[str] | None:
        """Use capacity for the replicas on these nodes and return the node of each. None if they do not fit."""
        node_names: list[str] = []
        for _number in range(replicas):
            able = [node.name for node in nodes if self.has(node.name, *request) and not (one_per_node and node.name in node_names)]
            if not able:
                for name in node_names:
                    self.release(name, *request)
                return None
            node_names.append(choices.choice(able))
            self.use(node_names[-1], *request)
        return node_names


def domains_of(nodes: Iterable[CaseNode], key: str, allowed: Callable[[CaseNode], bool]) -> dict[str, list[CaseNode]]:
    """Return the allowed nodes by domain of the topology key."""
    found: dict[str, list[CaseNode]] = {}
    for node in nodes:
        domain = node.domain(key)
        if domain is not None and allowed(node):
            found.setdefault(domain, []).append(node)
    return found
