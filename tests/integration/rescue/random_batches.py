# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters in batches, which are set up together on one cluster of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.cluster import Cluster
from lab.scenario import Scenario
from tests.integration.rescue.random_scene import RandomScene
from tests.integration.workloads import wait_until

BATCH = 10
"""Cases that come to the cluster together."""

Step = tuple[Callable[[RandomScene], None], Callable[[RandomScene], bool]]
"""A method that creates objects, and one that returns whether the cluster has taken them over."""

RUNNING_PODS: tuple[Step, ...] = (
    (RandomScene.create_pods, RandomScene.is_running),
    (RandomScene.create_owners, RandomScene.is_owned),
)


def batches(first_seed: int, cases: int) -> Iterator[range]:
    """Return the seeds of each batch."""
    end = first_seed + cases
    return (range(first, min(first + BATCH, end)) for first in range(first_seed, end, BATCH))


def set_up(cluster: Cluster, scenes: Sequence[RandomScene], pool: ThreadPoolExecutor, *more: Step) -> None:
    """Create the nodes and the running pods of all scenes, then the objects of ``more``."""
    cluster.add_nodes(Scenario("random", tuple(group for scene in scenes for group in scene.node_groups())))
    for create, is_complete in (*RUNNING_PODS, *more):
        list(pool.map(create, scenes))
        for scene in scenes:
            wait_until(lambda scene=scene, done=is_complete: done(scene), what=f"{is_complete.__name__} of seed {scene.task.seed}")
