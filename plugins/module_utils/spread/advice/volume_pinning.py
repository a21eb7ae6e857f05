# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Workloads whose volumes keep their pods in their domain. No rule of a template can spread them.

``spread/preconditions/host_path.py`` has the refusal for a hostPath. ``rescue/victims/victim_costs.py`` has the rule for victims.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...model.api.pod import Pod, mounts_claims
from ...model.api.workload import Workload
from ...model.snapshot import ClusterSnapshot
from ...scheduler.cluster_state import ClusterState
from ...scheduler.filters import volume_binding
from ...scheduler.filters.spread_domains import domain_of
from ..preconditions.host_path import host_path_violation
from ..preconditions.shared_volume import shared_single_writer_claim


def pinned_by_volumes(
    workload: Workload,
    snapshot: ClusterSnapshot,
    cluster_state: t.Callable[[], ClusterState],
    eligible: Sequence[str],
    topology_key: str,
) -> bool:
    """Return whether no placed pod of the workload can use its volumes in another eligible domain of ``topology_key``.

    ``cluster_state`` is called only if all placed pods mount claims, because it is expensive to build.
    """
    if shared_single_writer_claim(workload, snapshot) or host_path_violation(workload, snapshot) is not None:
        return True
    pods = snapshot.placed_pods(workload)
    if not pods or not all(map(mounts_claims, pods)):
        return False
    state = cluster_state()
    return all(_is_pinned(pod, snapshot, state, eligible, topology_key) for pod in pods)


def _is_pinned(pod: Pod, snapshot: ClusterSnapshot, cluster_state: ClusterState, eligible: Sequence[str], topology_key: str) -> bool:
    volumes = cluster_state.volumes_of(pod)
    reached = None if volumes is None else volume_binding.pre_filter(volumes.bound, volumes.delayed, cluster_state.storage)
    node = snapshot.nodes.get(pod.spec.node_name)
    if reached is None or node is None:
        return False
    domain = domain_of(node, topology_key)
    others = (name for name in eligible if domain_of(snapshot.nodes[name], topology_key) != domain)
    return all(reached(snapshot.nodes[name]) for name in others)
