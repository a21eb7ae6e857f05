# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that are killed with SIGKILL at any place, and one run afterwards: the end is the same, and nothing is done twice."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction, is_remembering, is_restart
from tests.integration.modules.module_process import Modules
from tests.integration.requests_seen import is_watched, requests_seen
from tests.integration.workloads import (
    deployment,
    identity,
    known_outcome,
    outcome,
    pile_up,
    pod_uids,
    pods_of,
    restarted_at,
    stateful_set,
    wait_rolled_out,
    wait_until,
)

READY_AFTER_S = 5
"""Long enough that a module can be killed before its rollout ends, also on a slow machine."""


class Victims:
    """One module for each of the Deployments, which are named by the place where theirs is killed."""

    def __init__(self, cluster: Cluster, modules: Modules, namespace: str, places: tuple[str, ...], **params: Any) -> None:
        self.webs = {place: _slow(deployment(namespace, place, 2)) for place in places}
        self._cluster = cluster
        self._modules = modules
        self._params = params
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._frozen: dict[str, threading.Event] = {place: threading.Event() for place in places}
        pile_up(cluster, *self.webs.values())
        self.old = {place: pod_uids(cluster, web) for place, web in self.webs.items()}
        self.mark = cluster.audit().mark()

    def start(self) -> None:
        for place, web in self.webs.items():
            self._processes[place] = self._modules.start("k8s_rollout_restart", workloads=[identity(web)], **self._params)

    def freeze(self, place: str) -> None:
        """It does not do anything any more."""
        self._processes[place].send_signal(signal.SIGSTOP)
        self._frozen[place].set()

    def kill(self, place: str) -> None:
        self._processes[place].send_signal(signal.SIGKILL)
        self._processes[place].wait()
        self._frozen[place].set()

    def wait_until_frozen(self, *places: str) -> None:
        for place in places:
            assert self._frozen[place].wait(120), place

    def wait_until_watching(self, place: str) -> None:
        wait_until(lambda: is_watched(self._cluster, self.mark, place), what=f"the watch of {place}")

    def answered(self, place: str, verb: str, resource: str) -> list[int]:
        """The codes with which the requests about a Deployment and its pods were answered, in all runs; dry runs do not count."""
        events = requests_seen(self._cluster, self.mark, verb=verb, resource=resource)
        return [event.code for event in events if event.name.partition("-")[0] == place and "dryRun" not in event.path]

    def run_again(self) -> dict[str, dict[str, Any]]:
        """One more run, over all of them."""
        done = self._modules.restart(workloads=[identity(web) for web in self.webs.values()], max_parallel=len(self.webs), **self._params)
        return {line["name"]: line for line in done["workloads"]}

    def assert_spread(self, place: str) -> None:
        remembered = known_outcome(self._cluster, self.webs[place])
        assert (remembered["outcome"], remembered["attempts"]) == ("improved", 0)
        pods = pods_of(self._cluster, self.webs[place])
        assert len(pods) == len({pod["spec"]["nodeName"] for pod in pods}) == 2


def _slow(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": str(READY_AFTER_S)}
    return manifest


BEFORE, AFTER, WAITING, LOOKING, ASKED = "before", "after", "waiting", "looking", "asked"


def test_a_killed_restart_is_made_once(cluster: Cluster, modules: Modules, namespace: str) -> None:
    victims = Victims(cluster, modules, namespace, (BEFORE, AFTER, WAITING, LOOKING))
    webs = victims.webs

    def on_restart(review: Review) -> str | None:
        if is_restart(review) and review["name"] == BEFORE:
            victims.kill(BEFORE)
            return "nobody is there to hear of it"
        if is_restart(review) and review["name"] == AFTER:
            victims.freeze(AFTER)
        return None

    with admission_webhook(cluster, "kill-restarts", namespace, on_restart):
        victims.start()
        victims.wait_until_watching(WAITING)
        victims.kill(WAITING)
        assert known_outcome(cluster, webs[WAITING])["outcome"] == "pending"
        victims.wait_until_watching(LOOKING)
        victims.freeze(LOOKING)
        victims.wait_until_frozen(BEFORE, AFTER)
        wait_until(lambda: restarted_at(cluster, webs[AFTER]) is not None, what="the patch")
        wait_rolled_out(cluster, webs[LOOKING])
    victims.kill(AFTER)
    victims.kill(LOOKING)
    assert restarted_at(cluster, webs[BEFORE]) is None and outcome(cluster, webs[BEFORE]) is None
    assert [known_outcome(cluster, webs[place])["outcome"] for place in (AFTER, LOOKING)] == ["pending"] * 2

    lines = victims.run_again()
    assert lines[BEFORE]["action"] == "restarted", lines
    for place in webs:
        assert lines[place]["outcome"] == "improved", lines
        assert place == BEFORE or lines[place]["reason"] == "already_restarted", lines
        assert victims.answered(place, "patch", "deployments").count(200) == 2, "one restart and its outcome"
        revisions = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets?labelSelector=app%3D{place}")["items"]
        assert len(revisions) == 2, "the first revision and one restart"
        victims.assert_spread(place)


FOREIGN, SCALED, ALONE = "foreign", "scaled", "alone"


def test_a_restart_of_a_stateful_set_that_is_killed_between_its_two_writes_takes_no_other_rollout_for_its_own(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    sets = {place: stateful_set(namespace, place, 2, podManagementPolicy="Parallel") for place in (FOREIGN, SCALED, ALONE)}
    pile_up(cluster, *sets.values())
    processes: dict[str, subprocess.Popen[str]] = {}

    def on_second_write(review: Review) -> str | None:
        if not is_remembering(review):
            return None
        processes[review["name"]].send_signal(signal.SIGKILL)
        return "nobody is there to hear of it"

    with admission_webhook(cluster, "kill-second-writes", namespace, on_second_write):
        for place, found in sets.items():
            processes[place] = modules.start("k8s_rollout_restart", workloads=[identity(found)])
        for process in processes.values():
            process.wait(120)
    for found in sets.values():
        remembered = known_outcome(cluster, found)
        assert remembered["outcome"] == "pending" and "expected" not in remembered, remembered
        wait_rolled_out(cluster, found)
    restarts = {place: restarted_at(cluster, found) for place, found in sets.items()}
    cluster.kubectl("set", "image", f"statefulset/{FOREIGN}", "-n", namespace, "main=registry.k8s.io/pause:3.9")
    cluster.kubectl("scale", f"statefulset/{SCALED}", "-n", namespace, "--replicas=3")
    wait_rolled_out(cluster, sets[FOREIGN])
    wait_rolled_out(cluster, sets[SCALED])

    done = modules.restart(workloads=[identity(found) for found in sets.values()])["workloads"]
    lines = {line["name"]: line for line in done}
    assert (lines[ALONE]["action"], lines[ALONE]["outcome"]) == ("skipped", "improved"), lines
    assert lines[ALONE]["reason"] == "already_restarted"
    for place in (FOREIGN, SCALED):
        assert lines[place]["reason"] != "already_restarted" and lines[place]["outcome"] == "", lines
    assert {place: restarted_at(cluster, found) for place, found in sets.items()} == restarts, "none was restarted a second time"


def test_a_killed_eviction_is_made_once(cluster: Cluster, modules: Modules, namespace: str) -> None:
    victims = Victims(cluster, modules, namespace, (BEFORE, AFTER, ASKED, WAITING, LOOKING), strategy="evict_surplus")
    webs = victims.webs

    def on_write(review: Review) -> str | None:
        if is_remembering(review) and review["name"] == BEFORE:
            victims.kill(BEFORE)
            return "nobody is there to hear of it"
        if is_remembering(review) and review["name"] == AFTER:
            victims.freeze(AFTER)
        if is_eviction(review) and review["name"].startswith(ASKED):
            victims.freeze(ASKED)
        return None

    with admission_webhook(cluster, "kill-evictions", namespace, on_write):
        victims.start()
        victims.wait_until_watching(WAITING)
        victims.kill(WAITING)
        victims.wait_until_watching(LOOKING)
        victims.freeze(LOOKING)
        victims.wait_until_frozen(BEFORE, AFTER, ASKED)
        wait_until(lambda: outcome(cluster, webs[AFTER]) is not None, what="the patch")
        wait_until(lambda: not victims.old[ASKED] <= pod_uids(cluster, webs[ASKED]), what="the eviction")
        wait_until(_available(cluster, webs[LOOKING], victims.old[LOOKING]), what="the replacement")
    for place in (AFTER, ASKED, LOOKING):
        victims.kill(place)
    assert outcome(cluster, webs[BEFORE]) is None
    assert pod_uids(cluster, webs[AFTER]) == victims.old[AFTER]
    assert [known_outcome(cluster, webs[place])["outcome"] for place in (AFTER, ASKED, WAITING, LOOKING)] == ["pending"] * 4

    lines = victims.run_again()
    for place in webs:
        assert (lines[place]["action"], lines[place]["outcome"]) == ("evicted" if place in (BEFORE, AFTER) else "skipped", "improved"), (
            lines
        )
        assert victims.answered(place, "create", "pods").count(201) == 1
        assert len(victims.old[place] & pod_uids(cluster, webs[place])) == 1
        victims.assert_spread(place)


def _available(cluster: Cluster, web: dict[str, Any], old: set[str]) -> Callable[[], bool]:
    """Return a condition: there is a new pod, and both pods are ready."""

    def look() -> bool:
        pods = pods_of(cluster, web)
        ready = [any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])) for pod in pods]
        return ready == [True] * 2 and not {pod["metadata"]["uid"] for pod in pods} <= old

    return look
