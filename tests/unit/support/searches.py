# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The search for victims in a cluster of some nodes and pods."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.caches import BoundedCache
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Blocker, Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.eviction_filter import (
    EvictionFilter,
    node_pod_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import Choice
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.diagnosis import Diagnosis
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.victim_search import (
    MAX_CAPACITIES,
    Capacities,
    VictimSearch,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_info import PodLoad

from tests.unit.support.cluster import snapshot_of

Json = dict[str, t.Any]


def immunity(rules: EvictionFilter, pod: Pod, options: RescueOptions) -> Reason | None:
    """Return the reason for which the pod must not be evicted, or None."""
    return rules.eviction_violation(node_pod_of(pod, PodLoad.of(pod), options))


def search(
    pod: Pod,
    nodes: list[Node],
    pods: t.Iterable[Pod],
    *,
    options: RescueOptions | None = None,
    excluded_victims: t.Iterable[str] = (),
    **snapshot: t.Any,
) -> VictimSearch:
    """The search for the pod in a cluster of these nodes and pods."""
    read = snapshot_of(nodes=nodes, pods=[*pods, pod], **snapshot)
    return victim_search(
        pod, ClusterState.of(read), options or RescueOptions(), budgets=PdbLedger(read), excluded_victims=frozenset(excluded_victims)
    )


def victim_search(
    pod: Pod,
    cluster_state: ClusterState,
    options: RescueOptions,
    *,
    budgets: PdbLedger,
    reaches: Capacities | None = None,
    profiles: Profiles = DEFAULT_PROFILES,
    **how: t.Any,
) -> VictimSearch:
    """The search for the pod in a cluster state."""
    return VictimSearch(pod, cluster_state, options, reaches or BoundedCache(MAX_CAPACITIES), budgets, profiles, **how)


def blockers(search: VictimSearch) -> tuple[Blocker, ...]:
    """Return the reasons for which no eviction helps on any node."""
    return Diagnosis(search).explain(None)


def names(choice: Choice | None) -> list[str] | None:
    """The names of the victims, the lowest priority first."""
    return None if choice is None else [victim.pod.metadata.name for victim in choice.victims]


def exceeded(budgets: PdbLedger, pods: t.Iterable[Pod]) -> dict[str, int]:
    """The budgets from which the pods would take more than they have, and how many would draw on them."""
    drawn = Counter(key for key in map(budgets.budget_of, pods) if key is not None)
    return {key[1]: number for key, number in drawn.items() if number > budgets.disruptions_left(key)}
