# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server is killed and started again while eight modules are in the middle of something, each of something else.

All of them wait where they are for the same kill. What it meant for each is seen afterwards.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.audit import AuditEvent
from lab.cluster import Cluster
from lab.pytest_fixtures import delete_namespace
from tests.integration.faults.crowd import IN_SECOND_PAGE
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction, is_restart
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.requests_seen import AGENT, is_watched, requests_seen
from tests.integration.wire import Wire, wire
from tests.integration.workloads import (
    deployment,
    identity,
    known_outcome,
    pile_up,
    pod_uids,
    pods_of,
    restarted_at,
    wait_until,
)

SPACE, QUIET = "faults-shop", "faults-quiet"
USER = "faults"
"""To whom roles apply, unlike the administrator."""
LISTING, REFUSED, WRITTEN, ROLLING = "listing", "refused", "written", "rolling"
KEPT, EVICTED, COMING = "kept", "evicted", "coming"
ROLLOUTS, EVICTIONS = (LISTING, REFUSED, WRITTEN, ROLLING), (KEPT, EVICTED, COMING)

WEBS = {name: deployment(SPACE, name, 2) for name in (*ROLLOUTS, *EVICTIONS)}
IDLE = deployment(QUIET, "idle", 2)


@dataclass
class Story:
    """The state before and after the end of the API server, and the results of the modules."""

    before: list[AuditEvent]
    pods: dict[str, set[str]]
    stamps: dict[str, str | None]
    after: list[AuditEvent]
    check: dict[str, Any]
    lines: dict[str, dict[str, Any]]


class Places:
    """Holds each module at its place, until the API server has been killed."""

    def __init__(self, cluster: Cluster, wires: dict[str, Wire]) -> None:
        self.over = threading.Event()
        self._cluster = cluster
        self._wires = wires
        self._asked: set[str] = set()
        self._mark = cluster.audit().mark()

    def decide(self, review: Review) -> None:
        """Decide as the webhook.

        The API server does not store a write before the webhook answers. The response to an allowed write stays on a held wire.
        """
        name = review["name"].partition("-")[0]
        if self.over.is_set() or not (is_restart(review) or is_eviction(review)):
            return
        self._asked.add(name)
        if name in (REFUSED, KEPT):
            self.over.wait()
        elif name in (WRITTEN, EVICTED):
            self._wires[name].hold()

    def wait_for_all(self, pods: dict[str, set[str]]) -> None:
        for name in (QUIET, LISTING, WRITTEN, EVICTED):
            wait_until(self._wires[name].held.is_set, what=f"the held answer to {name}")
        for name in (REFUSED, KEPT):
            wait_until(lambda name=name: name in self._asked, what=f"the request of {name}")
        wait_until(lambda: restarted_at(self._cluster, WEBS[WRITTEN]) is not None, what="the restart whose answer is held")
        wait_until(lambda: not pods[EVICTED] <= pod_uids(self._cluster, WEBS[EVICTED]), what="the eviction whose answer is held")
        for name in (ROLLING, COMING):
            wait_until(lambda name=name: is_watched(self._cluster, self._mark, name), what=f"the watch of {name}")


@pytest.fixture(scope="module")
def story(crowded: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    cluster, folder = crowded, tmp_path_factory.mktemp("wires")
    for name in (SPACE, QUIET):
        cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {"kube-scheduling.onprem/spread": "allow"}}}
        )
        cluster.wait_namespace(name)
    pile_up(cluster, *WEBS.values(), IDLE)
    pods = {name: pod_uids(cluster, web) for name, web in WEBS.items()}
    mark = cluster.audit().mark()
    with contextlib.ExitStack() as stack:
        kubeconfigs, wires = _wires(cluster, folder, stack)
        places = Places(cluster, wires)
        stack.enter_context(admission_webhook(cluster, "places", SPACE, places.decide))
        stack.callback(places.over.set)
        # From here on no new pod becomes ready, so that rollouts and replacements take as long as they shall.
        cluster.pause("kwok-controller")
        stack.callback(cluster.resume, "kwok-controller")
        modules = {name: Modules(kubeconfigs.get(name, cluster.service_account(USER))) for name in (QUIET, *WEBS)}
        check = modules[QUIET].start("k8s_spread_check", namespaces=[QUIET])
        processes = {
            name: modules[name].start(
                "k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus" if name in EVICTIONS else "rollout"
            )
            for name, web in WEBS.items()
        }
        places.wait_for_all(pods)
        stamps = {name: restarted_at(cluster, web) for name, web in WEBS.items()}
        before = requests_seen(cluster, mark)
        killed = cluster.audit().mark()
        stack.callback(cluster.start, "kube-apiserver")
        cluster.kill("kube-apiserver")
        places.over.set()
        for one in wires.values():
            one.cut()
        cluster.start("kube-apiserver")
        cluster.resume("kwok-controller")
        lines = {name: result_of(process)["workloads"][0] for name, process in processes.items()}
    yield Story(before, pods, stamps, requests_seen(cluster, killed), result_of(check), lines)
    for name in (SPACE, QUIET):
        delete_namespace(cluster.api, name)


def _wires(cluster: Cluster, folder: Path, stack: contextlib.ExitStack) -> tuple[dict[str, Path], dict[str, Wire]]:
    """Return the kubeconfigs and the wires. The wire of a list is held in its second page, the others are held on request."""
    kubeconfigs, wires = {}, {}
    user = cluster.service_account(USER)
    for name in (QUIET, LISTING):
        wires[name], kubeconfigs[name] = stack.enter_context(wire(cluster, folder, hold_after_bytes=IN_SECOND_PAGE, user=user))
    for name in (WRITTEN, EVICTED):
        wires[name], kubeconfigs[name] = stack.enter_context(wire(cluster, folder, user=user))
    return kubeconfigs, wires


def test_a_check_in_the_middle_of_a_list_continues_with_it(story: Story) -> None:
    agent = f"{AGENT}k8s_spread_check"
    before = [event.path for event in story.before if event.user_agent == agent and event.resource == "pods"]
    assert any("continue=" not in path for path in before), "it has not had the first page"
    codes = [event.code for event in story.after if event.user_agent == agent and event.resource == "pods" and "continue=" in event.path]
    pages = [code for code in codes if code != 403]  # a server that has just started denies for a moment what it allows
    assert pages == [200], "the second page was not asked for again"
    idle = story.check["workloads"][0]
    assert (idle["name"], idle["verdict"], idle["placed"], idle["restart_helps"]) == ("idle", "collapsed", 2, True), story.check


@pytest.mark.parametrize("name", ROLLOUTS)
def test_every_rollout_is_restarted_once(crowded: Cluster, story: Story, name: str) -> None:
    assert (story.stamps[name] is not None) == (name in (WRITTEN, ROLLING)), "it was not where it should have been"
    line = story.lines[name]
    assert (line["action"], line["outcome"]) == ("restarted", "improved"), line
    assert story.stamps[name] in (None, restarted_at(crowded, WEBS[name]))
    revisions = crowded.get(f"/apis/apps/v1/namespaces/{SPACE}/replicasets?labelSelector=app%3D{name}")["items"]
    assert len(revisions) == 2, "the first revision and one restart"
    assert_spread(crowded, name)


@pytest.mark.parametrize("name", EVICTIONS)
def test_of_every_surplus_one_pod_is_evicted(crowded: Cluster, story: Story, name: str) -> None:
    line = story.lines[name]
    assert (line["action"], line["outcome"], len(line["evicted"])) == ("evicted", "improved", 1), line
    assert len(story.pods[name] & pod_uids(crowded, WEBS[name])) == 1
    assert_spread(crowded, name)


def test_what_was_written_without_an_answer_is_met_as_a_conflict(story: Story) -> None:
    codes = [event.code for event in story.after if event.verb == "patch" and event.name == WRITTEN]
    patches = [code for code in codes if code != 403]  # a server that has just started denies for a moment what it allows
    assert patches == [409, 200], "the repetition, and the outcome"


def assert_spread(cluster: Cluster, name: str) -> None:
    outcome = known_outcome(cluster, WEBS[name])
    assert (outcome["outcome"], outcome["attempts"]) == ("improved", 0)
    pods = pods_of(cluster, WEBS[name])
    assert len(pods) == len({pod["spec"]["nodeName"] for pod in pods}) == 2
