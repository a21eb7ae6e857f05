# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer on full nodes: one replica leads. However it ends, the node is released and the pod is placed."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from lab import binaries
from lab.cluster import Cluster
from tests.integration.api_servers import start_api_server
from tests.integration.requests_seen import requests_seen
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import LEASE, SYSTEM, Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.daemons import AGENT, Daemon
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

LONG_S = 300
"""A grace period that is not over before the test ends the pod."""
LONG = f"--grace-period={LONG_S}s"

CHANGES = ("create", "patch", "update", "delete", "deletecollection")


def full_node(scene: Scene, *, grace: int = 1) -> str:
    """A node on which a critical pod of 500m fits only if its one pod is evicted."""
    (node,) = scene.nodes(cpu="1")
    scene.occupant("web", node, cpu="900m", grace=grace)
    return node


def wait_bound(scene: Scene, pod: str, node: str, daemon: Daemon, *, timeout_s: float = 120) -> None:
    wait_until(lambda: scene.bound_to(pod) == node, timeout_s=timeout_s, what=lambda: f"{pod} on {node}; {daemon.log.read_text()}")


def wait_free(scene: Scene) -> None:
    wait_until(lambda: scene.held() == [], what="a free node")


def leader_and_follower(start: Start, *flags: str) -> tuple[Daemon, Daemon]:
    first = start(*flags)
    wait_until(lambda: first.leads, what="a leader")
    return first, start(*flags)


def test_a_pod_is_rescued_and_everything_is_counted(scene: Scene, daemons: Start) -> None:
    daemon = daemons()
    wait_until(lambda: daemon.leads, what="a leader")
    node = full_node(scene)
    began_s = time.monotonic()
    pod = scene.critical("dns")
    wait_bound(scene, pod, node, daemon)
    wait_free(scene)
    wait_until(lambda: daemon.metric("rescues_total", result="rescued") == 1, what=lambda: f"the count; {daemon.log.read_text()}")
    assert len(scene.evictions()) == daemon.metric("evictions_total") == 1
    assert daemon.metric("rescues_total", result="failed") == 0
    assert daemon.metric("unschedulable_to_bound_seconds_count") == 1
    assert 0 < daemon.metric("unschedulable_to_bound_seconds_sum") <= time.monotonic() - began_s + 1
    assert daemon.metric("planning_seconds_count") >= 1
    wait_until(lambda: daemon.metric("pending_critical_pods") == daemon.metric("holds") == 0, what="nothing pending")
    (eviction,) = daemon.said("pod evicted")
    assert (eviction["critical_pod"], eviction["node"]) == (f"{SYSTEM}/{pod}", node)
    (end,) = daemon.said("pod no longer waits", pod=f"{SYSTEM}/{pod}")
    assert end["status"] == "rescued" and end["evicted"] == [eviction["pod"]]
    assert len(daemon.said("node held")) == len(daemon.said("node released", node=node)) == 1


def test_no_settle_time_passes_if_the_scheduler_reports_a_pod_and_preempts_nothing(scene: Scene, daemons: Start) -> None:
    daemon = daemons("--settle-time=300s")
    wait_until(lambda: daemon.leads, what="a leader")
    node = full_node(scene)
    wait_bound(scene, scene.critical("dns"), node, daemon, timeout_s=60)
    assert len(scene.evictions()) == 1


def test_what_cannot_be_rescued_is_shown_as_such(scene: Scene, daemons: Start) -> None:
    daemon = daemons()
    scene.nodes(cpu="1")
    pod = scene.critical("dns", cpu="2")
    wait_until(lambda: daemon.metric("pending_critical_pods", status="impossible") == 1, what="an impossible pod")
    (line,) = daemon.said("pod planned", pod=f"{SYSTEM}/{pod}", status="impossible")
    assert line["reason"] == "no_node" and "Insufficient cpu" in line["text"]
    assert daemon.metric("pending_critical_pods") == 1 and scene.evictions() == []


def test_the_module_beside_it_reports_what_it_does(scene: Scene, daemons: Start, rescues: Rescues) -> None:
    daemon = daemons()
    wait_until(lambda: daemon.leads, what="a leader")
    node = full_node(scene)
    row = rescues.one(scene.critical("dns", wait=False))
    assert (row["status"], row["node"]) == ("rescued", node)
    assert len(scene.evictions()) == daemon.metric("evictions_total") == 1
    wait_free(scene)


def test_promtool_has_nothing_to_say(daemons: Start) -> None:
    text = daemons().ask("/metrics")[1]
    checked = subprocess.run([str(binaries.promtool()), "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.never_repeated
def test_the_other_replica_takes_over_from_one_that_is_killed(scene: Scene, daemons: Start) -> None:
    leader, follower = leader_and_follower(daemons)
    assert not follower.leads and follower.said("following", leader=leader.said("leading")[0]["identity"])
    leader.kill()
    node = full_node(scene)
    pod = scene.critical("dns")
    wait_bound(scene, pod, node, follower)
    assert follower.leads and len(scene.evictions()) == 1
    wait_free(scene)


@pytest.mark.never_repeated
def test_a_replica_that_is_killed_in_mid_rescue_leaves_the_rest_to_the_other(scene: Scene, daemons: Start) -> None:
    leader, follower = leader_and_follower(daemons, LONG)
    node = full_node(scene, grace=LONG_S)
    pod = scene.critical("dns")
    wait_until(lambda: leader.said("pod evicted"), what="an eviction")
    leader.kill()
    wait_until(lambda: follower.leads, what="the next leader")
    wait_until(lambda: follower.metric("pending_critical_pods", status="clearing") == 1, what="the rescue")
    assert scene.held() == [node] and scene.bound_to(pod) == "" and follower.metric("holds") == 1
    scene.end_terminating("web")
    wait_bound(scene, pod, node, follower)
    wait_free(scene)
    assert len(scene.evictions()) == 1
    wait_until(lambda: follower.metric("rescues_total", result="rescued") == 1, what=lambda: f"the count; {follower.log.read_text()}")
    assert follower.metric("evictions_total") == 0


def test_hold_after_its_deadline_is_counted_and_the_leader_removes_it(scene: Scene, daemons: Start) -> None:
    (node,) = scene.nodes(cpu="100m")
    deadline_s = int(time.time()) - 1000
    scene.hold(node, scene.critical("dns"), deadline_s=deadline_s)
    watching = daemons("--dry-run")
    assert watching.metric("holds") == 1
    assert abs(time.time() - deadline_s - watching.metric("hold_overdue_seconds")) < 10
    daemons()
    wait_free(scene)
    wait_until(lambda: watching.metric("holds") == watching.metric("hold_overdue_seconds") == 0, what="the metrics")


def test_a_stop_finishes_what_is_under_way(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    daemon = daemons("--stop-timeout=120s", LONG)
    node = full_node(scene, grace=LONG_S)
    pod = scene.critical("dns")
    wait_until(lambda: daemon.said("pod evicted"), what="an eviction")
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: daemon.said("stopping", clearing=True), what="the beginning of the stop")
    scene.end_terminating("web")
    assert daemon.process.wait(120) == 0
    assert scene.bound_to(pod) == node and scene.held() == []
    assert not cluster.get(LEASE)["spec"].get("holderIdentity")
    assert daemon.said("stopped")


@pytest.mark.never_repeated
def test_a_stop_releases_the_node_in_time_and_the_other_replica_leads_immediately(scene: Scene, daemons: Start) -> None:
    leader, follower = leader_and_follower(daemons, "--stop-timeout=1s", LONG)
    node = full_node(scene, grace=LONG_S)
    pod = scene.critical("dns")
    wait_until(lambda: leader.said("pod evicted"), what="an eviction")
    assert leader.stop() == 0 and leader.said("node released")
    assert [one for one in scene.pods("web") if "deletionTimestamp" in one["metadata"]], "the stop has waited for the end of the pod"
    wait_until(lambda: follower.leads, what="the next leader")
    # The node is not held now, and a replacement of the evicted pod could take the capacity.
    scene.cluster.kubectl("scale", "replicaset/web", "--replicas=0", "-n", scene.namespace)
    scene.end_terminating("web")
    wait_bound(scene, pod, node, follower)
    wait_free(scene)
    assert len(scene.evictions()) == 1


def test_the_api_server_is_restarted_in_mid_rescue(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    daemon = daemons()
    node = full_node(scene, grace=6)
    pod = scene.critical("dns")
    wait_until(lambda: daemon.said("pod evicted"), what="an eviction")
    cluster.kill("kube-apiserver")
    wait_until(lambda: not daemon.ready, what="no readiness")
    assert daemon.ask("/healthz")[0] == 200
    start_api_server(cluster)
    daemon.wait_ready(60)
    wait_bound(scene, pod, node, daemon, timeout_s=120)
    wait_until(lambda: scene.held() == [], what="a free node")
    assert len(scene.evictions()) == 1 and daemon.metric("errors_total") > 0
    assert daemon.stop() == 0


def test_a_dry_run_changes_nothing(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    node = full_node(scene)
    pod = scene.critical("dns")
    daemon = daemons("--dry-run", "--housekeeping-interval=1s")
    wait_until(lambda: daemon.said("pod planned", pod=f"{SYSTEM}/{pod}", status="planned"), what="a plan")
    (line,) = daemon.said("pod planned", pod=f"{SYSTEM}/{pod}", status="planned")
    assert line["node"] == node and [victim.partition("/")[2].rpartition("-")[0] for victim in line["victims"]] == ["web"]
    # The plan is made again. It is the same one, so nothing more is logged.
    wait_until(lambda: len(scene.evictions(dry_run=True)) >= 2, what="a second check")
    assert daemon.metric("pending_critical_pods", status="planned") == 1
    assert (daemon.metric("dry_run"), daemon.metric("leader")) == (1, 0)
    assert len(daemon.said("pod planned", status="planned")) == 1
    assert daemon.stop() == 0
    asked = [event for event in requests_seen(cluster, scene.mark, user_agent=AGENT) if event.verb in CHANGES]
    assert asked and [event.path for event in asked if "dryRun=All" not in event.path] == []
    assert scene.bound_to(pod) == "" and scene.held() == []
