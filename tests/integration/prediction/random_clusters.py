# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A random cluster for a seed."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.prediction.capacity import Capacity
from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import HOST, NAMESPACE, RACK, ZONE, CaseWorkload, Json, RandomCase
from tests.integration.prediction.random_fillers import random_fillers, tight_fillers
from tests.integration.prediction.random_nodes import random_nodes
from tests.integration.prediction.random_profiles import OWN_NAME, random_profiles
from tests.integration.prediction.random_workloads import random_workload

KEYS = ((HOST,), (HOST,), (ZONE,), (HOST, ZONE), (ZONE, HOST), (HOST, ZONE, RACK), (RACK, HOST), (RACK, ZONE))
"""Topology keys of the check."""
MAX_SKEWS = (None, None, 1, 2)
SERVICE_RATE = 0.6
LIMIT_RANGE_RATE = 0.1
LIMIT_RANGE: Json = {
    "metadata": {"name": "defaults", "namespace": NAMESPACE},
    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "150m", "memory": "300Mi"}}]},
}
REBUILT_IMAGES_RATE = 0.2
"""The share of the clusters whose nodes have builds of different sizes under the same tag."""
ATTEMPTS = 4
"""So many random workloads are tried for each wanted one. Some do not fit into any domain."""


def random_cluster(seed: int, workloads: tuple[int, int] = (2, 6), *, is_full: bool = False) -> RandomCase:
    """Return the cluster of this seed. It is always the same one.

    ``workloads``: the fewest and the most that it is to have. ``is_full``: it has few nodes, all of them have little free capacity, and
    rollouts have little surge or none.
    """
    choices = Choices(seed)
    nodes = random_nodes(choices, seed, is_full=is_full)
    profiles = random_profiles(choices)
    keys, max_skew = choices.choice(KEYS), choices.choice(MAX_SKEWS)
    capacity = Capacity(nodes)
    fillers = random_fillers(choices, nodes, capacity)
    made: list[CaseWorkload] = []
    wanted = choices.randint(*workloads)
    for _attempt in range(ATTEMPTS * wanted):
        scheduler_name = OWN_NAME if profiles.name == OWN_NAME and choices.chance(0.7) else None
        name = f"app-{len(made)}"
        found = random_workload(choices, name, nodes, capacity, keys, scheduler_name, skewed=max_skew is not None, is_full=is_full)
        made += [] if found is None else [found]
        if len(made) == wanted:
            break
    fillers += tight_fillers(choices, nodes, capacity, is_full=is_full)
    services = [_service(workload.name) for workload in made if choices.chance(SERVICE_RATE)]
    awaits_ends = choices.chance(0.5)
    if choices.chance(REBUILT_IMAGES_RATE):
        nodes = [replace(node, image_percent=choices.choice((90, 100, 101))) for node in nodes]
    return RandomCase(
        seed,
        nodes,
        fillers,
        services,
        made,
        topology_keys=keys,
        max_skew=max_skew,
        limit_ranges=[LIMIT_RANGE] if choices.chance(LIMIT_RANGE_RATE) else [],
        profiles=profiles.configuration,
        profiles_kind=profiles.kind if profiles.configuration is None else f"{profiles.kind} in {profiles.name}",
        awaits_ends=awaits_ends,
        is_full=is_full,
    )


def _service(name: str) -> Json:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}], "clusterIP": "None"}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
