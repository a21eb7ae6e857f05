# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods of nodes: demands, the times of binding and end, and outcomes. The store gets the lists and events of a reflector."""

from __future__ import annotations

import copy
import json
import sys
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.store import ADDED, DELETED, MODIFIED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import parse_time
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Demand, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.clock import Clock
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes import pod_tracker
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import PodTracker, TrackedPodStore

from tests.unit.services.extender.sources.kube_server import CRASHING, READY, Json, pod

SERVER_NOW_S = parse_time("2026-01-01T01:00:00Z")
BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:59:00Z"}


class Pods:
    """A store with its tracker, and the clock ``now_s``."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.tracker = PodTracker()
        self.store = TrackedPodStore(self.tracker, lambda: Clock(self.now_s, SERVER_NOW_S + self.now_s - 1000.0))
        self.version = 0

    def read_list(self, *pods: Json) -> None:
        self.store.note_list_start()
        self.store.replace(self.store.decode_page(json.dumps({"items": [self._versioned(one) for one in pods]}).encode()))

    def event(self, kind: str, item: Json) -> None:
        self.store.apply(kind, self.store.decode_event(json.dumps(self._versioned(item)).encode()))

    def on(self, node: str) -> dict[str, PodView]:
        return {view.name: view for view in self.tracker.pods_on(node)}

    def outcomes(self) -> list[tuple[str, str, bool]]:
        return [(one.pod.name, one.node, one.succeeded) for one in self.tracker.take_changes().outcomes]

    def _versioned(self, item: Json) -> Json:
        self.version += 1
        made = copy.deepcopy(item)
        made["metadata"]["resourceVersion"] = str(self.version)
        return made


@pytest.fixture
def pods() -> Pods:
    made = Pods()
    made.read_list()
    return made


def test_a_binding_that_was_seen_is_now(pods: Pods) -> None:
    pods.now_s = 1234.5
    pods.event(ADDED, pod("web-1", "a"))
    assert pods.tracker.take_changes().nodes.keys() == {"a"}
    view = pods.on("a")["web-1"]
    assert view == PodView(
        namespace="default",
        name="web-1",
        uid="uid-web-1",
        scheduler_name="network-traffic",
        labels={"app": "web"},
        demand=Demand({"cpu": 500, "memory": 1024**3}),
        bound_at_s=1234.5,
    )


def test_a_list_keeps_no_resource_versions_and_an_unchanged_pod_is_no_change() -> None:
    pods = Pods()
    pods.read_list(pod("web-1", "a"))
    (record,), version = pods.store.items(), pods.store.version
    assert record.metadata.resource_version == ""
    pods.event(MODIFIED, pod("web-1", "a"))
    pods.read_list(pod("web-1", "a"))
    assert pods.store.items() == (record,) and pods.store.version == version


@pytest.mark.parametrize("absence", ["undecodable", "Failed", "Succeeded", "missing in a list"])
def test_a_pod_that_comes_back_runs_again(pods: Pods, absence: str) -> None:
    pods.event(ADDED, pod("web-1", "a", phase="Running"))
    pods.now_s = 1100.0
    broken = pod("web-1", "a")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    if absence == "missing in a list":
        pods.read_list()
    elif absence == "Succeeded":  # a watch with the selector shows it as deleted
        pods.event(DELETED, pod("web-1", "a", phase="Running"))
    else:
        pods.event(MODIFIED, broken if absence == "undecodable" else pod("web-1", "a", phase=absence))
    assert pods.on("a")["web-1"].ended_at_s == 1100.0
    pods.tracker.take_changes()
    pods.event(ADDED if absence == "Succeeded" else MODIFIED, pod("web-1", "a", phase="Running"))
    assert pods.tracker.take_changes().nodes.keys() == {"a"}
    back = pods.on("a")["web-1"]
    assert (back.bound_at_s, back.ended_at_s) == (1000.0, None)
    pods.tracker.forget_ended(1100.0 + pod_tracker.KNOWN_AFTER_END_S + 1)
    assert list(pods.on("a")) == ["web-1"], "it uses its requests still"


@pytest.mark.parametrize(
    ("status", "bound_at_s"),
    [
        ({"conditions": [BOUND], "startTime": "2026-01-01T00:59:30Z"}, 1000.0 - 60),
        ({"startTime": "2026-01-01T00:59:30Z"}, 1000.0 - 30),
        ({}, 1000.0 - 3600),
        ({"conditions": [{**BOUND, "lastTransitionTime": "2026-01-01T02:00:00Z"}]}, 1000.0),
    ],
    ids=["the condition", "the start", "the creation", "a time in the future"],
)
def test_a_binding_before_the_start_has_the_age_of_its_time(status: t.Any, bound_at_s: float) -> None:
    pods = Pods()
    pods.read_list(pod("web-1", "a", **status))
    assert pods.on("a")["web-1"].bound_at_s == bound_at_s


def test_a_later_event_does_not_move_the_binding(pods: Pods) -> None:
    pods.event(ADDED, pod("web-1", "a"))
    pods.tracker.take_changes()
    pods.now_s += 60
    pods.event(MODIFIED, pod("web-1", "a", phase="Running", conditions=[BOUND]))
    pods.read_list(pod("web-1", "a", phase="Running", conditions=[BOUND]))
    assert pods.on("a")["web-1"].bound_at_s == 1000.0
    assert pods.tracker.take_changes().nodes == {}  # nothing that a score depends on has changed


@pytest.mark.parametrize("end", ["Failed", "deleted", "missing in a list"])
def test_a_pod_is_known_for_ten_minutes_after_its_end(pods: Pods, end: str) -> None:
    pods.event(ADDED, pod("web-1", "a"))
    pods.event(ADDED, pod("web-2", "a"))
    pods.tracker.take_changes()
    pods.now_s = 1100.0
    if end == "deleted":
        pods.event(DELETED, pod("web-1", "a"))
    elif end == "missing in a list":
        pods.read_list(pod("web-2", "a"))
    else:
        pods.event(MODIFIED, pod("web-1", "a", phase=end))
    assert pods.tracker.take_changes().nodes.keys() == {"a"}
    assert {name: view.ended_at_s for name, view in pods.on("a").items()} == {"web-1": 1100.0, "web-2": None}
    pods.now_s = 1150.0
    if end == "Failed":
        pods.event(DELETED, pod("web-1", "a", phase=end))
        assert pods.on("a")["web-1"].ended_at_s == 1100.0
    pods.tracker.forget_ended(1100.0 + pod_tracker.KNOWN_AFTER_END_S + 1)
    assert list(pods.on("a")) == ["web-2"]


def test_a_pod_that_ended_before_the_start_uses_nothing() -> None:
    pods = Pods()
    pods.read_list(pod("job-1", "a", phase="Failed"))
    assert pods.on("a") == {}


def test_a_pod_that_can_be_decoded_again_has_the_time_of_its_binding(pods: Pods) -> None:
    broken = pod("web-1", "a")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    pods.event(ADDED, broken)
    pods.event(MODIFIED, pod("web-1", "a", conditions=[BOUND]))
    assert pods.on("a")["web-1"].bound_at_s == 1000.0 - 60


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [
        *(("10M", 10_000_000), ("1Gi", 1024**3), ("250000", 250_000), ("1k", 1000), ("1P", 10**15)),
        *(("0", None), ("-5M", None), ("fast", None), ("999", None), ("2P", None), ("1E", None), ("9e999", None)),
    ],
)
def test_declared_bandwidth(pods: Pods, text: str, bits_per_s: int | None) -> None:
    pods.event(ADDED, pod("web-1", "a", annotations={"kubernetes.io/ingress-bandwidth": text}))
    demand = pods.on("a")["web-1"].demand
    assert (demand.ingress_bits_per_s, demand.egress_bits_per_s) == (bits_per_s, None)


def test_requests_follow_the_rule_of_the_scheduler(pods: Pods) -> None:
    item = pod("web-1", "a")
    item["spec"]["initContainers"] = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "init", "resources": {"requests": {"cpu": "2"}}},
    ]
    item["spec"]["overhead"] = {"cpu": "50m"}
    pods.event(ADDED, item)
    assert pods.on("a")["web-1"].demand.requests["cpu"] == 2000 + 100 + 50


REQUESTS = {"requests": {"cpu": "700m", "memory": "1Gi"}}
PENDING = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
STATUS: Json = {"containerStatuses": [{"name": "main", "resources": REQUESTS, "allocatedResources": {"cpu": "900m"}}]}
SMALLER = [{"name": "main", "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}]
SOURCES_OF_DEMAND: dict[str, tuple[Json, Json, Json]] = {
    "nothing": ({}, {}, {}),
    "a limit": ({"containers": [{"name": "main", "resources": {"limits": {"cpu": "3"}}}]}, {}, {}),
    "another name": ({"containers": [{"name": "other", "resources": {"requests": {"cpu": "100m"}}}]}, STATUS, {}),
    "an init container": ({"initContainers": [{"name": "init", "resources": {"requests": {"cpu": "2"}}}]}, {}, {}),
    "a sidecar": ({"initContainers": [{"name": "init", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}]}, {}, {}),
    "pod-level requests": ({"resources": {"requests": {"cpu": "5"}}}, {}, {}),
    "pod-level requests in a resize": ({"resources": {"requests": {"cpu": "5"}}}, {"resources": {"requests": {"cpu": "6"}}}, {}),
    "pod-level requests that are allocated": (
        {"resources": {"requests": {"cpu": "5"}}},
        {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "7"}},
        {},
    ),
    "overhead": ({"overhead": {"cpu": "50m"}}, {}, {}),
    "a resize": ({}, STATUS, {}),
    "a resize without allocated resources": ({}, {"containerStatuses": [{"name": "main", "resources": REQUESTS}]}, {}),
    "a smaller resize, which changes nothing": ({}, {"containerStatuses": SMALLER}, {}),
    "a resize that is not possible": ({}, {"containerStatuses": SMALLER, "conditions": PENDING}, {}),
    "ingress": ({}, {}, {"kubernetes.io/ingress-bandwidth": "10M"}),
    "egress": ({}, {}, {"kubernetes.io/egress-bandwidth": "10M"}),
}


def test_pods_share_a_demand_only_if_it_is_calculated_from_equal_parts(pods: Pods) -> None:
    items = {}
    for number, (name, (spec, status, declared)) in enumerate(SOURCES_OF_DEMAND.items()):
        items[name] = pod(f"web-{number}", "a", annotations=declared, **status)
        items[name]["spec"] |= spec
        pods.event(ADDED, items[name])
    found = dict(zip(items, (view.demand for view in pods.on("a").values()), strict=True))
    expected = {}
    for name, item in items.items():
        alone = Pods()
        alone.read_list(item)
        expected[name] = next(iter(alone.on("a").values())).demand
    assert found == expected
    distinct = {(*sorted(one.requests.items()), one.ingress_bits_per_s, one.egress_bits_per_s) for one in found.values()}
    assert len(distinct) == len(found) - 1


def test_a_resize_changes_the_demand_of_the_node(pods: Pods) -> None:
    pods.event(ADDED, pod("web-1", "a"))
    pods.tracker.take_changes()
    item = pod("web-1", "a")
    item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    pods.event(MODIFIED, item)
    assert pods.tracker.take_changes().nodes.keys() == {"a"} and pods.on("a")["web-1"].demand.requests["cpu"] == 1000


def test_a_ready_pod_is_a_success_once(pods: Pods) -> None:
    pods.event(ADDED, pod("web-1", "a"))
    assert pods.outcomes() == []
    for ready in (READY, [], READY):
        pods.event(MODIFIED, pod("web-1", "a", phase="Running", conditions=ready))
    assert pods.outcomes() == [("web-1", "a", True)]


def test_a_crash_loop_and_a_failure_are_failures_once(pods: Pods) -> None:
    pods.event(ADDED, pod("web-1", "a", phase="Running", containerStatuses=CRASHING))
    pods.event(MODIFIED, pod("web-1", "a", phase="Running", containerStatuses=CRASHING, conditions=[BOUND]))
    pods.event(ADDED, pod("job-1", "b"))
    pods.event(MODIFIED, pod("job-1", "b", phase="Failed"))
    assert pods.outcomes() == [("web-1", "a", False), ("job-1", "b", False)]


def test_a_pod_that_recovers_is_a_success(pods: Pods) -> None:
    pods.event(ADDED, pod("web-1", "a", phase="Running", containerStatuses=CRASHING))
    pods.event(MODIFIED, pod("web-1", "a", phase="Running", conditions=READY))
    assert pods.outcomes() == [("web-1", "a", False), ("web-1", "a", True)]


def test_outcomes_before_the_start_and_after_a_new_list_are_not_reported_again() -> None:
    pods, ready, crashing = Pods(), pod("web-1", "a", phase="Running", conditions=READY), pod("web-2", "a", containerStatuses=CRASHING)
    pods.read_list(ready, crashing)
    assert pods.outcomes() == []
    pods.read_list(ready, crashing, pod("web-3", "a", phase="Running", conditions=READY))
    assert pods.outcomes() == [("web-3", "a", True)]


def test_only_the_last_ended_pods_of_a_node_are_known(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_tracker, "MAX_ENDED", 2)
    pods.read_list(pod("runs-1", "a"), pod("short-1", "b"))
    pods.event(DELETED, pod("short-1", "b"))
    for number in range(4):
        pods.event(ADDED, pod(f"job-{number}", "a"))
        pods.event(MODIFIED, pod(f"job-{number}", "a", phase="Failed"))
    assert list(pods.on("a")) == ["runs-1", "job-2", "job-3"] and list(pods.on("b")) == ["short-1"]
    pods.event(DELETED, pod("job-0", "a", phase="Failed"))
    pods.tracker.forget_ended(pods.now_s + 601)
    assert list(pods.on("a")) == ["runs-1"] and not pods.on("b")


def test_equal_labels_and_demands_are_kept_once(pods: Pods) -> None:
    pods.read_list(*(pod(f"web-{number}", "a") for number in range(3)))
    one, two, three = pods.on("a").values()
    assert one.labels is two.labels is three.labels and one.demand is two.demand is three.demand


def test_shared_parts_that_no_pod_has_any_more_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_tracker, "LEAST_PARTS", 10)
    pods = Pods()
    pods.read_list()
    for number in range(20):
        pods.event(ADDED, pod(f"app{number}-1", "a"))
        pods.event(DELETED, pod(f"app{number}-1", "a"))
    assert len(pods.store._shared) <= 12


def test_the_texts_of_pods_are_not_interned(pods: Pods) -> None:
    one = pod("web-1", "a")
    one["metadata"]["labels"] = {"job-name": "backup of today"}
    pods.read_list(one)
    found = next(iter(pods.on("a").values())).labels["job-name"]
    assert sys.intern(" ".join(["backup", "of", "today"])) is not found, "Python 3.12 would never free it"


def test_a_pod_with_a_wrong_quantity_is_undecodable_and_the_others_are_known(pods: Pods) -> None:
    broken = pod("web-2", "a")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    pods.read_list(pod("web-1", "a"), broken)
    assert list(pods.on("a")) == ["web-1"] and [one.metadata.name for one in pods.store.undecodable] == ["web-2"]
    from_list = pods.store.undecodable
    pods.event(MODIFIED, broken)
    assert [one.text for one in pods.store.undecodable] == [one.text for one in from_list]
    assert from_list[0].text.startswith("Pod default/web-2 cannot be decoded: 'lots'")
