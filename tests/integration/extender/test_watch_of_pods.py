# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of the extender follow the pods of a real API server, with no more rights than get, list and watch of nodes and pods."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation, NodeView, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import Outcome
from ansible_collections.onprem.kube_scheduling.services.extender.sources.refresher import Sources
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import KubernetesSettings, SourceSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.workloads import deployment, filler, wait_rolled_out, workers

READER = "sources-reader"
LOAD = Annotation("test.example/load")
WAIT_S = 60.0


class Recorder:
    """Keeps the changes of nodes and the outcomes."""

    def __init__(self) -> None:
        self.nodes: list[NodeView] = []
        self.outcomes: list[Outcome] = []
        self._came = threading.Condition()

    def on_view(self, view: ClusterView) -> None:
        pass

    def on_node(self, node: NodeView) -> None:
        with self._came:
            self.nodes.append(node)
            self._came.notify_all()

    def on_outcome(self, outcome: Outcome) -> None:
        with self._came:
            self.outcomes.append(outcome)
            self._came.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._came:
            assert self._came.wait_for(condition, WAIT_S), (self.nodes[-3:], self.outcomes)

    def pods_of(self, namespace: str) -> dict[str, PodView]:
        """Return the newest view of each pod of the namespace."""
        return {pod.name: pod for node in self.nodes for pod in node.pods if pod.namespace == namespace}


@pytest.fixture(scope="module")
def user(lab_cluster: Cluster) -> Path:
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": READER}, "rules": rules}
    lab_cluster.apply([role])
    return lab_cluster.service_account(READER, cluster_role=READER)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def sources(user: Path, recorder: Recorder) -> Iterator[Sources]:
    made = Sources(SourceSettings(kubernetes=KubernetesSettings(str(user))), [LOAD], recorder, Log(logging.getLogger("sources")))
    yield made
    made.stop()


def test_pods_are_known_from_their_binding_to_their_end(
    lab_cluster: Cluster, sources: Sources, recorder: Recorder, namespaces: NamespaceFactory
) -> None:
    namespace = namespaces("sources")
    lab_cluster.kubectl("annotate", "node", workers(lab_cluster)[0], f"{LOAD.key}=7", "--overwrite")
    view = sources.refresh_once()
    assert view.errors == {} and set(view.nodes) >= set(workers(lab_cluster))
    first = view.nodes[workers(lab_cluster)[0]]
    assert first.allocatable["cpu"] > 0 and first.labels["kubernetes.io/hostname"] == first.name
    assert [series.value for series in first.series[LOAD]] == [7.0]

    web: dict[str, Any] = deployment(namespace, "web", 3, cpu="100m")
    web["spec"]["template"]["metadata"]["annotations"] = {"kubernetes.io/egress-bandwidth": "10M"}
    begun_s = time.monotonic()
    lab_cluster.apply([web])
    wait_rolled_out(lab_cluster, web)
    recorder.wait(lambda: len(recorder.pods_of(namespace)) == 3)
    for pod in recorder.pods_of(namespace).values():
        assert (pod.demand.requests["cpu"], pod.demand.egress_bits_per_s, pod.labels["app"]) == (100, 10_000_000, "web")
        assert pod.bound_at_s is not None and begun_s <= pod.bound_at_s <= time.monotonic() and pod.ended_at_s is None
    recorder.wait(lambda: {one.pod.name for one in recorder.outcomes if one.succeeded} >= set(recorder.pods_of(namespace)))

    lab_cluster.kubectl("delete", "deployment/web", "-n", namespace)
    recorder.wait(lambda: all(pod.ended_at_s is not None for pod in recorder.pods_of(namespace).values()))
    again = sources.refresh_once()
    assert {pod.name for node in again.nodes.values() for pod in node.pods if pod.namespace == namespace} == set(
        recorder.pods_of(namespace)
    )
    lab_cluster.kubectl("annotate", "node", first.name, f"{LOAD.key}-")


def test_pods_that_were_bound_before_the_start_have_the_age_of_their_binding(
    lab_cluster: Cluster, sources: Sources, recorder: Recorder, namespaces: NamespaceFactory
) -> None:
    namespace = namespaces("sources")
    web = deployment(namespace, "web", 2)
    lab_cluster.apply([web])
    wait_rolled_out(lab_cluster, web)
    time.sleep(2)
    view = sources.refresh_once()
    ages_s = [time.monotonic() - (pod.bound_at_s or 0) for node in view.nodes.values() for pod in node.pods if pod.namespace == namespace]
    lab_cluster.kubectl("delete", "deployment/web", "-n", namespace)
    assert len(ages_s) == 2 and all(1 < age_s < WAIT_S for age_s in ages_s)
    assert [one for one in recorder.outcomes if one.pod.namespace == namespace] == []


def test_a_finished_pod_ends_before_it_is_deleted_and_is_not_read_again(
    lab_cluster: Cluster, user: Path, sources: Sources, recorder: Recorder, namespaces: NamespaceFactory
) -> None:
    namespace, node = namespaces("sources"), workers(lab_cluster)[0]
    lab_cluster.apply([filler(namespace, node, cpu="10m"), deployment(namespace, "waiting", 1, cpu="1000")])
    name = f"filler-{node}"
    sources.refresh_once()
    finished = '{"status": {"phase": "Succeeded"}}'
    lab_cluster.kubectl("patch", f"pod/{name}", "-n", namespace, "--subresource=status", "--patch", finished)
    recorder.wait(lambda: name in recorder.pods_of(namespace) and recorder.pods_of(namespace)[name].ended_at_s is not None)
    assert recorder.pods_of(namespace).keys() == {name}

    started_again = Sources(SourceSettings(kubernetes=KubernetesSettings(str(user))), [LOAD], Recorder(), Log(logging.getLogger("again")))
    view = started_again.refresh_once()
    started_again.stop()
    assert lab_cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]["phase"] == "Succeeded"
    assert {pod.name for one in view.nodes.values() for pod in one.pods if pod.namespace == namespace} == set()
