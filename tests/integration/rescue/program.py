# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescuer within the test's own process, on the real API server, which the test drives step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.config_map_store import ConfigMapStore
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaderLease, identity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.environment import RescueEnvironment, RescueObserver
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import rescue_options

from tests.integration.rescue.rescues import QUICK
from tests.integration.rescue.scene import Scene
from tests.integration.workloads import wait_until

SLICE_S = 0.2


class LosingApi(KubeApi):
    """The real API server; the answers to the first ``lost`` evictions do not arrive."""

    lost = 0

    def evict(self, namespace: str, name: str, **how: Any) -> None:
        super().evict(namespace, name, **how)
        if not how.get("dry_run") and self.lost:
            self.lost -= 1
            raise UnreachableError("the connection was closed before the answer came")

    def with_timeouts(self, **_bounds: float) -> KubeApi:
        return self


class Program:
    """A rescuer for the pod of this name. It holds the Lease."""

    def __init__(self, scene: Scene, name: str, **options: Any) -> None:
        self.api = LosingApi(open_transport.open_transport(kubeconfig=str(scene.cluster.kubeconfig), user_agent="stale-watch"))
        self.cache = ClusterInformer(self.api)
        self.lease = LeaderLease(self.api, identity())
        environment = RescueEnvironment(
            self.api,
            self.cache,
            rescue_options({**QUICK, **options}),
            lease=self.lease,
            observer=RescueObserver(),
            writer="test",
        )
        self.controller = RescueController(environment, ConfigMapStore(self.api), selected=lambda pod: pod.metadata.name == name)
        self.cache.start()
        assert self.lease.acquire(30)

    @property
    def task(self) -> RescueTask:
        (task,) = self.controller.tasks.values()
        return task

    def tick_for(self, seconds: float) -> None:
        """Do for so long what a daemon does."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self.turn(left_s)

    def turn(self, at_most_s: float = SLICE_S) -> None:
        """One tick, and a wait for the next change."""
        version = self.cache.version
        rest_s = self.controller.reconcile()
        self.cache.wait_for_change(version, min(rest_s, at_most_s, SLICE_S))

    def tick_until(self, condition: Callable[[], Any], timeout_s: float = 40) -> None:
        def ticked() -> bool:
            self.turn()
            return bool(condition())

        wait_until(ticked, what="the state of the rescue", timeout_s=timeout_s)


@contextmanager
def program(scene: Scene, name: str, **options: Any) -> Iterator[Program]:
    found = Program(scene, name, **options)
    try:
        yield found
    finally:
        try:
            found.controller.release_all_holds()
        finally:
            found.lease.release()
            found.cache.stop()
