# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""This extender with its own code, in virtual time: from Prometheus' HTTP answers to the answer to a prioritize request.

Source, mapping of nodes, watch of pods, agent, engine and handler are those of the program, with their defaults. Only the threads, the HTTP
server and the API server are missing: the events of pods and the requests of the scheduler are passed as the bytes that these would carry.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.store import ADDED
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent, Profile
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPods
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import SchedulerApi
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Query
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.pauses import no_pause
from ansible_collections.onprem.kube_scheduling.services.extender.sources.clock import Clock
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.kubernetes import ClusterWatch
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeRecord, NodeStore
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_objects import INGRESS_BANDWIDTH
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import PodTracker, TrackedPodStore
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import DEFAULT_REFRESH_S, PrometheusSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.source_log import SourceLog
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.views import Views

from tests.soak.placement.cluster import Cluster
from tests.soak.placement.contenders import Contender
from tests.soak.placement.query_server import EPOCH_S, QueryServer
from tests.soak.placement.workload import NODE_CPU, NODE_MEMORY, Integers, Pod

Json = dict[str, Any]

PROFILE, AGENT = "network-traffic", "network_traffic"
POINTS = 10
"""The points of kube-scheduler for one point of an extender with the weight 1."""
BITS = 8
CREATED = "2026-01-01T00:00:00Z"
"""Long before EPOCH_S."""


def own_queries() -> tuple[Query, ...]:
    """Return the queries of the agent with the arguments of each contender."""
    found = [query for kind in OWN for query in build_agent(AGENT, dict(kind.args)).queries]
    return tuple(dict.fromkeys(found))


class OwnExtender(Contender):
    """This extender. ``args``: the arguments of the agent that are not its defaults.

    ``declares``: the pods have the annotation for their bandwidth, which is the most that they receive.
    """

    name: ClassVar[str] = "this extender"
    args: ClassVar[Mapping[str, Any]] = {}
    refresh_s = int(DEFAULT_REFRESH_S)
    declares: ClassVar[bool] = False

    def __init__(self, cluster: Cluster, server: QueryServer) -> None:
        super().__init__(cluster)
        self._server, server.source = server, cluster.prometheus
        log = set_up_log("placement", form="json", level="error", stream=io.StringIO())
        metrics = Metrics(log)
        agent = build_agent(AGENT, dict(self.args))
        self._queries = tuple(agent.queries)
        self._engine = Engine(
            {PROFILE: Profile(PROFILE, (ConfiguredAgent(agent),))}, metrics, pause=no_pause, clock=lambda: self.cluster.now_s
        )
        self._api = SchedulerApi(self._engine, metrics, RecentPods())
        self._source = PrometheusSource(PrometheusSettings((server.url,)), clock=lambda: self.cluster.now_s)
        self._views = Views(self._engine, SourceLog(log), threading.RLock(), no_pause)
        self._nodes = _nodes(cluster)
        self.tracker = PodTracker()
        self._pods = TrackedPodStore(self.tracker, self.moment)
        self._list_others()

    def refresh(self) -> None:
        self._server.now_s = self.cluster.now_s
        readings = self._source.read(self._queries, self._nodes)
        assert not readings.error and not readings.unmapped_count, readings.error
        self._views.deliver(ClusterView(refreshed_at_s=self.cluster.now_s), self._queries, readings.values, cast(ClusterWatch, self))

    def on_bound(self, pod: Pod, node: int) -> None:
        bound = self._object(pod)
        bound["spec"]["nodeName"] = self.cluster.names[node]
        self._pods.apply(ADDED, self._pods.decode_event(json.dumps(bound).encode()))
        for name in self.tracker.take_changes().nodes:
            nodes = self._engine.current.nodes
            self._engine.on_node(replace(nodes.views[nodes.numbers[name]], pods=self.tracker.pods_on(name)))

    def points(self, pod: Pod) -> Integers:
        body = json.dumps({"Pod": self._object(pod), "Nodes": None, "NodeNames": self.cluster.names}).encode()
        answer = json.loads(self._api.handler("/scheduler/prioritize")(body))
        assert [entry["Host"] for entry in answer] == self.cluster.names
        return POINTS * np.array([entry["Score"] for entry in answer], dtype=np.int64)

    def _list_others(self) -> None:
        """List the pods that ran before. They give the agent the mean traffic of a pod."""
        items = []
        for node, count in zip(self.cluster.names, self.cluster.scenario.others.tolist(), strict=True):
            for number in range(count):
                metadata = {"name": f"{node}-{number}", "namespace": "other", "uid": f"{node}-{number}", "resourceVersion": "1"}
                items.append(
                    {
                        "metadata": {**metadata, "creationTimestamp": CREATED},
                        "spec": {"nodeName": node},
                        "status": {"phase": "Running"},
                    }
                )
        self._pods.replace(self._pods.decode_page(json.dumps({"items": items}).encode()))
        self.tracker.take_changes()

    def _object(self, pod: Pod) -> Json:
        annotations: Mapping[str, str] = {INGRESS_BANDWIDTH: str(int(pod.peak * BITS))} if self.declares else {}
        requests = {"cpu": f"{pod.cpu}m", "memory": str(pod.memory)}
        return {
            "metadata": {
                "name": f"pod-{pod.number}",
                "namespace": "default",
                "uid": f"uid-{pod.number}",
                "resourceVersion": "1",
                "labels": {"app": f"app-{pod.workload}"},
                "annotations": dict(annotations),
            },
            "spec": {"schedulerName": PROFILE, "containers": [{"name": "main", "resources": {"requests": requests}}]},
            "status": {"phase": "Pending"},
        }

    # What the views need of the watch of the API server.

    def nodes(self) -> Mapping[str, NodeRecord]:
        return self._nodes

    def moment(self) -> Clock:
        return Clock(self.cluster.now_s, EPOCH_S + self.cluster.now_s)


class OwnExtenderWithDeclaredBandwidth(OwnExtender):
    """This extender, for pods with the annotation kubernetes.io/ingress-bandwidth."""

    name = "this extender, pods declare their bandwidth"
    declares = True


class OwnExtenderWithLongWindow(OwnExtender):
    """This extender with a rate over 15 minutes."""

    name = "this extender, window: 15m"
    args: ClassVar[Mapping[str, Any]] = {"window": "15m"}


class OwnExtenderWithFreeShare(OwnExtender):
    """This extender with integers that cover all utilisations from 0 to 100 %."""

    name = "this extender, worst_utilisation: 1"
    args: ClassVar[Mapping[str, Any]] = {"worst_utilisation": 1}


OWN = (OwnExtender, OwnExtenderWithDeclaredBandwidth, OwnExtenderWithLongWindow, OwnExtenderWithFreeShare)


def _nodes(cluster: Cluster) -> dict[str, NodeRecord]:
    store = NodeStore()
    for name, address in zip(cluster.names, cluster.addresses, strict=True):
        item = {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": {"cpu": f"{NODE_CPU}m", "memory": str(NODE_MEMORY)},
                "addresses": [{"type": "InternalIP", "address": address}],
            },
        }
        store.apply(ADDED, store.decode_event(json.dumps(item).encode()))
    return {record.name: record for record in store.view(tuple)}
