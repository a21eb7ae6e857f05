# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance windows on a real control plane: outside of them nothing is restarted or evicted, inside of them it is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_restart
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, outcome, pile_up, pod_uids, restarted_at, stateful_set

WINDOW = "kube-scheduling.onprem/window"
OPEN = "Mon-Sun 00:00-24:00 UTC"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
INVALID = "Mon-Fri 22-5 UTC"


def closed(zone: str = "Europe/Berlin") -> str:
    """A window that opens three days from now."""
    return f"{DAYS[(time.gmtime().tm_wday + 3) % 7]} 00:00-24:00 {zone}"


def annotate(cluster: Cluster, resource: str, window: str, *place: str) -> None:
    cluster.kubectl("annotate", resource, *place, "--overwrite", f"{WINDOW}={window}")


def code(line: dict[str, Any]) -> str:
    reason: str = line["reason"]
    return reason


def checked(modules: Modules, namespace: str) -> tuple[list[str], str]:
    """The names of the restartable workloads, and everything that is said about the only uneven one."""
    result = modules.check(namespace)
    (line,) = result["workloads"]
    assert line["restart_helps"] in (True, "true"), line
    return [one["name"] for one in result["restartable"]], str(line["blockers"])


@pytest.mark.parametrize("strategy", ["rollout", "evict_surplus", "auto"])
def test_nothing_is_moved_outside_of_the_window_of_the_namespace_and_something_inside(
    cluster: Cluster, modules: Modules, namespace: str, strategy: str
) -> None:
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web)
    pods = pod_uids(cluster, web)
    for window, expected in ((closed(), "outside_window"), (INVALID, "invalid_window")):
        annotate(cluster, f"namespace/{namespace}", window)
        for check_mode in (True, False):
            done = modules.restart(workloads=[identity(web)], strategy=strategy, check_mode=check_mode)
            (line,) = done["workloads"]
            assert (line["action"], code(line), done["changed"], done.get("failed", False)) == ("refused", expected, False, False), line
        assert f"{WINDOW} of namespace {namespace}" in str(line)
        restartable, said = checked(modules, namespace)
        assert restartable == [] and expected in said
    named = modules.restart(**identity(web), strategy=strategy)
    assert named["failed"] and WINDOW in named["msg"]
    assert pod_uids(cluster, web) == pods and outcome(cluster, web) is None

    annotate(cluster, "deployment/web", OPEN, "-n", namespace)
    assert checked(modules, namespace)[0] == ["web"]
    (line,) = modules.restart(workloads=[identity(web)], strategy=strategy)["workloads"]
    assert line["action"] in ("restarted", "evicted"), line


def test_message_says_when_the_next_window_opens_by_the_clock_of_the_api_server(cluster: Cluster, modules: Modules, namespace: str) -> None:
    db = stateful_set(namespace, "db", 2)
    db["metadata"]["annotations"] = {WINDOW: closed("UTC")}
    pile_up(cluster, db)
    midnight_s = (int(time.time()) // 86400 + 3) * 86400
    (line,) = modules.restart(workloads=[identity(db)])["workloads"]
    expected = {time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(midnight_s + day * 86400)) for day in (-1, 0, 1)}
    assert code(line) == "outside_window" and any(f"the next window opens at {text}" in str(line) for text in expected), line


def test_window_of_a_stateful_set_that_is_closed_during_the_write_prevents_the_restart(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    """The annotation does not raise the generation of a StatefulSet, so that only the resource version shows the change."""
    db = stateful_set(namespace, "db", 2)
    pile_up(cluster, db)
    pods = pod_uids(cluster, db)
    touched: list[str] = []

    def close_first(review: Review) -> None:
        if is_restart(review) and not touched:
            touched.append(review["uid"])
            annotate(cluster, "statefulset/db", closed(), "-n", namespace)

    with admission_webhook(cluster, "close", namespace, close_first):
        (line,) = modules.restart(workloads=[identity(db)])["workloads"]
    assert touched and line["action"] in ("skipped", "refused"), line
    assert pod_uids(cluster, db) == pods and restarted_at(cluster, db) is None
