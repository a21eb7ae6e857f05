# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs with ``wait: false``: they begin rescues, and the next program completes them or releases their nodes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import BudgetError, KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import RescueResult, rescue_result

from tests.unit.support.fakes import Scene, again, clear_nomination, full_nodes, key_of, node, nominated, pod, run_on, scene

DNS = key_of(pod("dns", "500m"))


def begin(on: Scene, **options: t.Any) -> dict[str, dict[str, t.Any]]:
    """A run with ``wait: false``; its pods by name."""
    controller = run_on(on, wait=False, **{"wait_timeout_s": 60, **options})
    assert run._with_held_nodes(None, controller) is None and not on.lease.held
    return {row["name"]: row for row in rescue_result(RescueResult([*on.controller.tasks.values()]), named=False)["pods"]}


def test_a_run_that_does_not_wait_leaves_the_node_held_and_the_attempt_under_way() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    row = begin(on)["dns"]
    assert (row["status"], row["reason"], row["node"]) == ("waiting", "rescue_begun", "n")
    assert row["message"].startswith("1 pod was evicted from node n, which is held for it until ")
    assert [victim["name"] for victim in row["victims"]] == ["v"]
    assert on.cluster.held == ["n"] and on.cluster.evicted == ["v"] and list(on.attempts.kept[DNS].under_way) == ["u-dns"]


def test_the_next_program_completes_a_begun_rescue_and_releases_the_node() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    begin(on)
    on.lease.held = True
    other = again(on)
    other.reconcile()
    assert on.cluster.held == ["n"] and on.cluster.evicted == ["v"]
    del on.cluster.pods["v"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    other.reconcile()
    assert on.cluster.held == [] and on.attempts.kept[DNS].under_way == {} and list(on.attempts.kept[DNS].rescued) == ["u-dns"]


def test_the_next_run_that_does_not_wait_nominates_the_pod_of_a_begun_rescue_again(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n", tolerates=False)
    begin(on)
    on.cluster.pods["v-n"]["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    clear_nomination(on)
    monkeypatch.setattr(on.lease, "acquire", lambda _timeout_s: vars(on.lease).update(held=True, holder="next") or True)
    row = begin(on._replace(controller=again(on)))["dns"]
    assert row["reason"] == "rescue_begun" and nominated(on) == "n" and on.cluster.evicted == ["v-n"]


def test_the_next_program_releases_the_node_of_a_pod_that_was_bound_meanwhile() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    begin(on)
    del on.cluster.pods["v"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.lease.held = True
    again(on).reconcile()
    assert on.cluster.held == [] and on.attempts.kept[DNS].under_way == {}


def test_the_next_program_releases_the_node_after_the_deadline_of_the_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")], wait_timeout_s=20, evict_timeout_s=0)
    begin(on)
    del on.cluster.pods["v"]
    now_s = on.cluster.now_s()
    monkeypatch.setattr(on.cluster, "now_s", lambda: now_s + 30)
    on.lease.held = True
    again(on).reconcile()
    assert on.cluster.held == []


def test_all_evictions_of_a_node_are_requested_before_the_run_ends() -> None:
    victims = [pod(f"v{number}", "300m", on="n") for number in range(3)]
    on = scene([node("n")], [*victims, pod("dns", "900m")])
    assert begin(on)["dns"]["reason"] == "rescue_begun"
    assert sorted(on.cluster.evicted) == ["v0", "v1", "v2"]


def test_a_refused_eviction_is_repeated_before_the_run_ends() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    refused = iter([True, True])

    def refuse(_name: str, dry_run: bool) -> KubeError | None:
        return BudgetError("not now", status=429) if not dry_run and next(refused, False) else None

    on.cluster.refuse_eviction = refuse
    assert begin(on)["dns"]["reason"] == "rescue_begun" and on.cluster.evicted == ["v"]


def test_a_rescue_that_must_wait_for_another_one_is_not_awaited() -> None:
    nodes = [node("n"), node("m")]
    pods = [pod("v-n", "900m", on="n"), pod("v-m", "900m", on="m")]
    on = scene(nodes, [*pods, pod("dns", "500m", tolerates=False), pod("cni", "600m", tolerates=False)])
    rows = begin(on)
    assert {row["reason"] for row in rows.values()} <= {"rescue_begun", "queued", "others_terminating"}
    assert [row["reason"] for row in rows.values()].count("rescue_begun") == 1 and len(on.cluster.evicted) == 1


def test_a_run_that_does_not_wait_ends_if_another_program_has_the_lease() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    on.lease.held, on.lease.holder = False, "rescuer-a"
    row = begin(on)["dns"]
    assert (row["status"], row["reason"]) == ("waiting", "not_leader") and "rescuer-a" in row["message"]
    assert on.cluster.evicted == [] and on.cluster.held == []


def test_an_impossible_rescue_is_reported_by_a_run_that_does_not_wait() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "5")])
    row = begin(on)["dns"]
    assert (row["status"], row["reason"]) == ("impossible", "no_node") and on.cluster.held == []


def test_an_error_releases_the_nodes_of_a_run_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])

    def fail() -> None:
        raise Interrupt

    class Interrupt(BaseException):
        pass

    monkeypatch.setattr(RescueController, "record_open_attempts", lambda _controller: fail())
    with pytest.raises(Interrupt):
        begin(on)
    assert on.cluster.evicted == ["v"] and on.cluster.held == []
