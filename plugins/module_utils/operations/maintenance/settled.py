# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a maintenance: all nodes are Ready and uncordoned, and the workloads are settled."""

from __future__ import annotations

from collections.abc import Collection

from ...kube.client.api import KubeApi
from ...kube.client.resources import NODES, WORKLOADS
from ...model.api.node import Node
from ...model.api.workload import Workload
from ...spread.rollout import partition, update_strategy_type


def node_texts(node: Node) -> list[str]:
    """Return a sentence for each reason why the node cannot be used."""
    ready = next((one for one in node.status.conditions or () if one.type == "Ready"), None)
    found = []
    if ready is None or ready.status != "True":
        message = " ".join(ready.message.split()) if ready is not None else ""
        found.append(f"Node {node.name} is not Ready{': ' if message else ''}{message}")
    if node.spec.unschedulable:
        found.append(f"Node {node.name} is cordoned: run kubectl uncordon {node.name}, or add it to after_maintenance_ignored_nodes")
    return found


def workload_text(workload: Workload) -> str:
    """Return what the workload waits for. It is empty if it is settled.

    A paused Deployment, or a StatefulSet that is updated by hand or in parts, may have old replicas for any time.
    """
    spec, status = workload.spec, workload.status
    is_held = spec.paused or update_strategy_type(workload) == "OnDelete" or partition(workload) > 0
    updated = spec.replicas if is_held else status.updated_replicas
    if status.observed_generation < workload.metadata.generation or updated < spec.replicas:
        return f"{workload} is rolling: {updated} of {spec.replicas} replicas are updated"
    if not is_held and status.replicas > updated:
        return f"{workload} is rolling: {status.replicas - updated} old replicas are not gone yet"
    available = status.available_replicas
    return f"{workload} has {available} of {spec.replicas} replicas available" if available < spec.replicas else ""


def waiting_nodes(api: KubeApi, ignored: Collection[str]) -> list[str]:
    """Return a sentence for each reason why a node is not ready."""
    return [text for node in api.list_all(NODES) if node.name not in ignored for text in node_texts(node)]


def waiting_workloads(api: KubeApi, chosen: Collection[str]) -> list[str]:
    """Return a sentence for each chosen workload that is not settled. Its name is as in ``Deployment app/web``."""
    found = [one for resource in WORKLOADS.values() for one in api.list_all(resource) if str(one) in chosen]
    return [text for text in map(workload_text, found) if text]
