# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The sources together: views, changes of pods and outcomes, against an API server and a Prometheus of the test."""

from __future__ import annotations

import logging
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.interface import (
    Annotation,
    Expression,
    Gauge,
    NodeView,
    Rate,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources import refresher
from ansible_collections.onprem.kube_scheduling.services.extender.sources.refresher import Sources
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    KubernetesSettings,
    NodeExporterSettings,
    SourceSettings,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.views import KEPT_S, KEPT_WITHOUT_AGE_S, Views

from tests.unit.services.extender.sources import prometheus_server as faults
from tests.unit.services.extender.sources.kube_server import READY, KubeServer, node, pod
from tests.unit.services.extender.sources.prometheus_server import Server
from tests.unit.services.extender.sources.source_listener import RECEIVED, WAIT_S, Clock, Listener, Make


def test_a_view_has_the_nodes_of_the_cluster_with_their_values(make: Make, server: Server, kube: KubeServer, listener: Listener) -> None:
    kube.put("nodes", node("a", "10.0.0.1", zone="z1"))
    kube.put("nodes", node("b", "10.0.0.2"))
    kube.put("pods", pod("web-1", "b"))
    server.put("received", "5", 3, instance="10.0.0.1:9100")
    server.put("received", "5", 3, instance="10.0.0.3:9100")
    view = make(RECEIVED).refresh_once()
    assert view is listener.views[0] and view.errors == {}
    assert list(view.nodes) == ["a", "b"]
    assert dict(view.nodes["a"].labels) == {"zone": "z1"}
    assert view.nodes["a"].allocatable == {"cpu": 4000, "memory": 8 * 1024**3, "pods": 110}
    assert [series.value for series in view.nodes["a"].series[RECEIVED]] == [5.0]
    assert view.nodes["b"].series == {} and [one.name for one in view.nodes["b"].pods] == ["web-1"]
    assert view.unmapped_count == 1 and view.unmapped[0].labels["instance"] == "10.0.0.3:9100"


def test_a_binding_and_an_end_pass_the_node(make: Make, server: Server, kube: KubeServer, listener: Listener, clock: Clock) -> None:
    kube.put("nodes", node("a", "10.0.0.1"))
    kube.put("pods", pod("web-1"))
    server.put("received", "5", 3, instance="a")
    make(RECEIVED).refresh_once()
    kube.put("pods", pod("web-1", "a"))
    listener.wait(lambda: len(listener.nodes) == 1)
    kube.delete("pods", "web-1")
    listener.wait(lambda: len(listener.nodes) == 2)
    bound, ended = listener.nodes
    assert bound.name == "a" and RECEIVED in bound.series
    assert abs((bound.pods[0].bound_at_s or 0) - clock()) < WAIT_S and bound.pods[0].ended_at_s is None
    assert ended.pods[0].ended_at_s is not None


def test_the_next_view_has_the_changes_of_pods(make: Make, kube: KubeServer, listener: Listener, clock: Clock) -> None:
    kube.put("nodes", node("a"))
    sources = make()
    sources.refresh_once()
    kube.put("pods", pod("web-1", "a"))
    listener.wait(lambda: len(listener.nodes) == 1)
    kube.delete("pods", "web-1")
    listener.wait(lambda: len(listener.nodes) == 2)
    assert [one.name for one in sources.refresh_once().nodes["a"].pods] == ["web-1"]
    clock.ahead_s = 601
    assert sources.refresh_once().nodes["a"].pods == ()


@pytest.mark.parametrize("refreshes", [0, 1])
def test_a_node_that_changes_while_a_view_is_made_is_in_the_view(
    make: Make, kube: KubeServer, listener: Listener, refreshes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube.put("nodes", node("a"))
    kube.put("pods", pod("web"))
    sources = make()
    for _ in range(refreshes):
        sources.refresh_once()
    made = Views._made_nodes

    def slow(*arguments: t.Any) -> dict[str, NodeView]:
        found = made(*arguments)
        kube.put("pods", pod("web", "a"))
        while sources._watch is None or not sources._watch.tracker.pods_on("a"):
            time.sleep(0.001)
        assert not found["a"].pods
        return found

    monkeypatch.setattr(Views, "_made_nodes", slow)
    assert [one.name for one in sources.refresh_once().nodes["a"].pods] == ["web"]


def test_a_node_that_changes_while_the_listener_calculates_is_passed_then_and_is_in_the_view(
    make: Make, kube: KubeServer, listener: Listener
) -> None:
    kube.put("nodes", node("a"))
    kube.put("pods", pod("web"))
    order: list[str] = []

    class Slow(Listener):
        def on_view(self, view: ClusterView) -> None:
            if view.version > first.version:
                kube.put("pods", pod("web", "a"))
                self.wait(lambda: len(self.nodes) == 1)
            order.append("view")

        def on_node(self, node: NodeView) -> None:
            order.append("node")
            super().on_node(node)

    sources = make()
    first = sources.refresh_once()
    sources._views._listener = slow = Slow()
    newest = sources.refresh_once().nodes["a"]
    assert order == ["node", "view"]
    assert [one.name for one in newest.pods] == ["web"] and slow.nodes == [newest]


def test_an_outcome_is_passed(make: Make, kube: KubeServer, listener: Listener) -> None:
    kube.put("nodes", node("a"))
    kube.put("pods", pod("old-1", "a", phase="Running", conditions=READY))
    make().refresh_once()
    kube.put("pods", pod("web-1", "a", phase="Running", conditions=READY))
    listener.wait(lambda: len(listener.outcomes) == 1)
    assert (listener.outcomes[0].pod.name, listener.outcomes[0].node, listener.outcomes[0].succeeded) == ("web-1", "a", True)


def test_values_stay_with_their_times_until_they_are_too_old(make: Make, server: Server, kube: KubeServer, clock: Clock) -> None:
    kube.put("nodes", node("a"))
    server.put("received", "5", 3, instance="a")
    sources = make(RECEIVED)
    before = sources.refresh_once()
    server.fault = faults.status(500)
    clock.ahead_s = 60
    after = sources.refresh_once()
    assert after.version > before.version and after.nodes["a"].series == before.nodes["a"].series
    assert "status 500" in after.errors["prometheus"]
    clock.ahead_s = KEPT_S + 1
    assert sources.refresh_once().nodes["a"].series == {}


def test_a_dead_exporter_does_not_look_new(make: Make, server: Server, kube: KubeServer, clock: Clock) -> None:
    kube.put("nodes", node("a"))
    server.put("received", "5", 3, instance="a")
    sources = make(RECEIVED)
    before = sources.refresh_once().nodes["a"].series
    server.vectors["timestamp(received)"] = []  # the rate has a value for the rest of its window
    clock.ahead_s = 30
    assert sources.refresh_once().nodes["a"].series == before


def test_a_device_that_vanishes_is_not_kept(make: Make, server: Server, kube: KubeServer) -> None:
    kube.put("nodes", node("a"))
    server.put("received", "5", 3, instance="a", device="eth0")
    server.put("received", "6", 3, instance="a", device="eth1")
    sources = make(RECEIVED)
    assert len(sources.refresh_once().nodes["a"].series[RECEIVED]) == 2
    for samples in server.vectors.values():
        samples.pop()
    assert len(sources.refresh_once().nodes["a"].series[RECEIVED]) == 1


def test_without_kubernetes_the_nodes_are_those_of_the_series(make: Make, server: Server) -> None:
    server.put("received", "5", 3, instance="worker-1:9100")
    view = make(RECEIVED, Annotation("load"), kubernetes=False).refresh_once()
    assert list(view.nodes) == ["worker-1"] and view.nodes["worker-1"].pods == ()
    assert view.errors == {"kubernetes": "the annotation load needs sources.kubernetes, which is not configured"}


def test_annotations_have_the_age_of_their_time(make: Make, kube: KubeServer, clock: Clock) -> None:
    kube.put("nodes", node("a", annotations={"load": f"7,{time.time() - 40:.0f}", "text": "no value"}))
    kube.put("nodes", node("b", annotations={"load": "8"}))
    kube.put("nodes", node("c", annotations={"load": f"9,{time.time() + 28_800:.0f}"}))
    load = Annotation("load")
    view = make(load, Annotation("text"), prometheus=False).refresh_once()
    (dated,), (ageless,) = view.nodes["a"].series[load], view.nodes["b"].series[load]
    assert dated.value == 7.0 and clock() - (dated.measured_at_s or 0) == pytest.approx(40, abs=5)
    assert (ageless.value, ageless.measured_at_s) == (8.0, None)
    assert load not in view.nodes["c"].series
    assert list(view.nodes["a"].series) == [load] and view.errors == {}


def test_a_node_with_too_many_annotations_labels_and_resources_takes_nothing_from_the_others(make: Make, kube: KubeServer) -> None:
    hostile = node("hostile", annotations={f"a{number}": "1" for number in range(257)}, **{f"label{number}": "x" for number in range(5000)})
    hostile["metadata"]["labels"]["kubernetes.io/hostname"] = "host-name"
    hostile["status"]["allocatable"] |= {f"example.com/{number:05}": "1" for number in range(5000)}
    kube.put("nodes", hostile)
    kube.put("nodes", node("a", annotations={f"a{number}": "1" for number in range(256)}))
    query = Annotation("a1")
    view = make(query, prometheus=False).refresh_once()
    assert query in view.nodes["a"].series and query not in view.nodes["hostile"].series
    assert view.errors == {"kubernetes": "node hostile has 257 annotations with numbers, and more than 256 are not used"}
    found = view.nodes["hostile"]
    assert (len(found.labels), len(found.allocatable)) == (128, 64) and found.allocatable["cpu"] == 4000


def test_queries_without_a_source_are_an_error(make: Make, kube: KubeServer) -> None:
    kube.put("nodes", node("a"))
    view = make(RECEIVED, prometheus=False).refresh_once()
    assert "sources.prometheus or sources.node_exporter" in view.errors["prometheus"] and list(view.nodes) == ["a"]


def test_node_exporters_are_scraped_at_the_addresses_of_the_nodes(make: Make, server: Server, kube: KubeServer) -> None:
    kube.put("nodes", node("a", "127.0.0.1"))
    server.metrics = "node_load1 0.5\n"
    load = Gauge("node_load1")
    view = make(load, prometheus=False, node_exporter=NodeExporterSettings(port=server.port)).refresh_once()
    assert [series.value for series in view.nodes["a"].series[load]] == [0.5] and view.errors == {}


def test_an_api_server_that_is_down_is_an_error_and_the_nodes_are_those_of_the_series(
    make: Make, server: Server, kube: KubeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher, "SYNC_WAIT_S", 0.1)
    kube.stop()
    server.put("received", "5", 3, instance="worker-1:9100")
    view = make(RECEIVED).refresh_once()
    assert view.errors == {"kubernetes": "nodes have not been read yet; pods have not been read yet"}
    assert list(view.nodes) == ["worker-1"]


def test_the_nodes_stay_known_while_the_api_server_is_down(make: Make, server: Server, kube: KubeServer) -> None:
    kube.put("nodes", node("a", "10.0.0.1"))
    server.put("received", "5", 3, instance="10.0.0.1:9100")
    sources = make(RECEIVED)
    sources.refresh_once()
    kube.stop()
    assert list(sources.refresh_once().nodes) == ["a"]


def test_a_kubeconfig_that_cannot_be_read_is_an_error_of_each_refresh(server: Server, listener: Listener, tmp_path: Path) -> None:
    settings = SourceSettings(kubernetes=KubernetesSettings(kubeconfig=str(tmp_path / "missing")))
    sources = Sources(settings, [], listener, Log(logging.getLogger("test of the sources")))
    for _refresh in range(2):
        assert str(tmp_path / "missing") in sources.refresh_once().errors["kubernetes"]


def test_new_queries_replace_the_old_ones(make: Make, server: Server, kube: KubeServer) -> None:
    kube.put("nodes", node("a"))
    server.put("received", "5", 3, instance="a")
    server.put("sent", "6", 3, instance="a")
    sources, sent = make(RECEIVED), Rate("sent", 60)
    sources.refresh_once()
    sources.set_queries([sent])
    assert list(sources.refresh_once().nodes["a"].series) == [sent]


def test_versions_grow_when_other_sources_follow(make: Make, kube: KubeServer) -> None:
    kube.put("nodes", node("a"))
    first = make().refresh_once()
    assert make(kubernetes=False).refresh_once().version > first.version


def test_the_values_of_unknown_age_are_kept_for_a_shorter_time(make: Make, server: Server, kube: KubeServer, clock: Clock) -> None:
    kube.put("nodes", node("a"))
    server.vectors["x"] = [({"instance": "a"}, "5")]
    sources = make(Expression("x"))
    assert sources.refresh_once().nodes["a"].series
    server.fault = faults.status(500)
    clock.ahead_s = KEPT_WITHOUT_AGE_S - 10
    assert sources.refresh_once().nodes["a"].series
    clock.ahead_s = KEPT_WITHOUT_AGE_S + 1
    assert not sources.refresh_once().nodes["a"].series


def test_a_value_of_unknown_age_that_is_missing_in_an_answer_is_not_kept(make: Make, server: Server, kube: KubeServer) -> None:
    kube.put("nodes", node("a"))
    kube.put("nodes", node("b"))
    query = Expression("x")
    server.vectors["x"] = [({"instance": "a"}, "1"), ({"instance": "b"}, "1")]
    sources = make(query)
    assert [name for name, view in sources.refresh_once().nodes.items() if view.series] == ["a", "b"]
    server.vectors["x"].pop()
    assert [name for name, view in sources.refresh_once().nodes.items() if view.series] == ["a"]


def test_a_problem_is_logged_once_until_it_ends(make: Make, server: Server, kube: KubeServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "test of the sources")
    kube.put("nodes", node("a"))
    server.fault = faults.status(500)
    sources = make(RECEIVED)
    for _refresh in range(3):
        sources.refresh_once()
    server.fault = faults.answer_data
    sources.refresh_once()
    assert [("a problem" in message, "no problem" in message) for message in caplog.messages] == [(True, False), (False, True)]
