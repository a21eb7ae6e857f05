# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a rescue as text: what would be done differs from what was done."""

from __future__ import annotations

import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rescue_text import render_rescue, rescue_totals

from tests.unit.report.results import BERLIN, BERLIN_LINE

NOTHING: dict[str, t.Any] = {"pods": [], "released": [], "skipped_objects": []}
HELD = {**NOTHING, "released": [{"node": "worker-6", "pod": "kube-system/dns"}]}


def test_a_plan_lists_nodes_that_would_be_released_and_a_run_those_that_were() -> None:
    assert "\nwould be released: node worker-6, held for kube-system/dns" in render_rescue(HELD, plan=True)
    assert "\nreleased: node worker-6, held for kube-system/dns" in render_rescue(HELD)


def test_without_a_waiting_pod_the_line_below_the_cluster_has_the_selection() -> None:
    shown = render_rescue({**NOTHING, "cluster": BERLIN}, namespaces=["kube-system", "infra"], label_selectors=["app=dns", "tier=a"])
    assert shown == f"{BERLIN_LINE}\nno critical pod waits for a node (namespaces: kube-system, infra; labels: app=dns, tier=a)"
    assert render_rescue(NOTHING) == "no critical pod waits for a node"


def test_a_release_does_not_mention_pods() -> None:
    assert render_rescue(NOTHING, state="released") == "no node is held"
    assert render_rescue(HELD, state="released").startswith("1 held node\n")


def test_several_blockers_are_listed_below_the_code() -> None:
    blockers = [
        {"reason": "taint", "message": "a taint", "nodes": 2},
        {"reason": "undecodable", "message": "it cannot be decoded", "nodes": 1},
    ]
    pod = {"namespace": "kube-system", "name": "dns", "status": "impossible", "node": "", "victims": [], "blockers": blockers}
    shown = render_rescue(
        {**NOTHING, "pods": [{**pod, "reason": "no_node", "message": "no eviction makes the pod fit on a node: a taint (nodes: 2)"}]}
    )
    assert shown.splitlines()[3:] == ["    no_node:", "    2 nodes: a taint", "    1 node: it cannot be decoded"]


def test_totals_count_pods_victims_and_released_nodes() -> None:
    pods = [{"status": "rescued", "victims": [{}, {}]}, {"status": "impossible", "victims": []}]
    totals = rescue_totals({**HELD, "pods": pods, "changed": True, "failed": True, "msg": "Pod x: impossible"})
    assert (totals["rescued"], totals["impossible"], totals["planned"], totals["victims"], totals["released"]) == (1, 1, 0, 2, 1)
    assert (totals["changed"], totals["plan"], totals["ok"], totals["error"]) == (True, False, False, "Pod x: impossible")
    assert rescue_totals({}, plan=True)["ok"]
    failed = rescue_totals({}, error="no answer")
    assert (failed["ok"], failed["error"], failed["rescued"]) == (False, "no answer", 0)
