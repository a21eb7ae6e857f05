# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Watch the nodes and the pods of the cluster."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from .....plugins.module_utils.kube.cache.reflector import SILENT_AFTER_S, Reflector, stop_all
from .....plugins.module_utils.kube.client.api import KubeApi
from .....plugins.module_utils.model.gc_pause import gc_paused
from .....plugins.module_utils.model.messages import first_texts
from ..clock import Clock
from .node_objects import NodeRecord, NodeStore
from .pod_tracker import PodChanges, PodTracker, TrackedPodStore

MAX_NAMED = 3
"""Objects of one kind that are named in an error."""


class ClusterWatch:
    """The nodes and pods, kept up to date by one thread each.

    ``lock`` guards the state, and ``on_pods`` is called under it after each change that concerns the pods of a node.
    """

    name = "kubernetes"

    def __init__(
        self,
        api: KubeApi,
        lock: threading.RLock,
        on_pods: Callable[[PodChanges], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._clock = clock
        self._on_pods = on_pods
        self._synced = threading.Condition(lock)
        self.tracker = PodTracker()
        self._nodes = NodeStore()
        self._reflectors = [
            Reflector(api, store, self._publish, required=True, may_be_absent=False)
            for store in (self._nodes, TrackedPodStore(self.tracker, self.moment))
        ]

    def start(self) -> None:
        """Start the watches. ``wait_until_synced`` waits for their first lists."""
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        """End the watches. The last state can still be read."""
        stop_all(self._reflectors)

    def wait_until_synced(self, timeout_s: float) -> None:
        """Return as soon as the nodes and the pods are complete, and after ``timeout_s`` or an error that will stay."""

        def is_settled() -> bool:
            return all(one.complete for one in self._reflectors) or any(one.fatal is not None for one in self._reflectors)

        with self._synced, gc_paused():
            self._synced.wait_for(is_settled, timeout_s)

    def moment(self) -> Clock:
        """Return the present moment by both clocks."""
        return Clock(self._clock(), self._api.now_s())

    # The following are called under the lock.

    def nodes(self) -> Mapping[str, NodeRecord] | None:
        """Return the nodes by name, or None before they are known. The mapping is never changed."""
        return self._nodes.view(_by_name) if self._reflectors[0].complete else None

    @property
    def error(self) -> str:
        """Return the reason why the state may be old or incomplete, as one sentence without a full stop. It is empty if there is none."""
        problems = []
        for reflector in self._reflectors:
            plural, problem = reflector.store.resource.plural, reflector.ended or reflector.error
            silent_s = time.monotonic() - reflector.contact_at_s
            if problem is not None:
                problems.append(str(problem))
            elif not reflector.complete:
                problems.append(f"{plural} have not been read yet")
            elif silent_s > SILENT_AFTER_S:
                problems.append(f"the API server has sent nothing about {plural} for {silent_s:.0f} s")
            problems += first_texts([one.text for one in reflector.store.undecodable], MAX_NAMED, "objects cannot be decoded")
        of_nodes = [record.problem for record in self._nodes.items() if record.problem]
        problems += first_texts(of_nodes, MAX_NAMED, "nodes have too many annotations")
        return "; ".join(dict.fromkeys(problems))

    def _publish(self, change: Callable[[], bool]) -> None:
        with self._synced:
            if change():
                self._synced.notify_all()
            changes = self.tracker.take_changes()
            if changes.nodes or changes.outcomes:
                self._on_pods(changes)


def _by_name(records: t.Iterable[NodeRecord]) -> dict[str, NodeRecord]:
    return {record.name: record for record in records}
