# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The map as text: what it shows at which size, and that it stays readable."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rescue_text import render_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import build_report
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.text_map import MIN_WIDTH, render_text

from tests.unit.report.results import BERLIN, BERLIN_LINE, HOST, Json, check, even, nodes, piled, restart, workload


def run_on(node_list: list[Json], *, healthy: int = 0) -> tuple[Json, dict[str, t.Any]]:
    """A check before, and options with what followed: one workload spread, one left where it is."""
    web = workload("web", piled(node_list, 4), "collapsed", restart_helps=True)
    blocker = {"reason": "insufficient_memory", "message": "Insufficient memory", "nodes": 2}
    big = workload("big", piled(node_list, 2), "collapsed", restart_helps=False, blockers=[blocker])
    rest = [workload(f"fine-{number:03d}", even(node_list, 3), "healthy") for number in range(healthy)]
    after = check([workload("web", even(node_list, 4), "healthy"), big, *rest], node_list)
    return check([web, big, *rest], node_list), {"after": after, "restart": restart(web)}


def text(before: t.Any, *, width: int = 120, max_rows: int = 60, **options: t.Any) -> str:
    return render_text(build_report(before, **options), width=width, max_rows=max_rows)


def test_a_small_cluster_is_shown_node_by_node_under_its_zones() -> None:
    before, options = run_on(nodes(4))
    assert text({**before, "cluster": BERLIN}, **options) == (
        """\
berlin (context admin, https://10.0.0.10:6443)
2 workloads in 1 namespace, 4 nodes, 4 of them open to these workloads
collapsed 2→1   skewed 0   restarted 1 (improved 1)   refused 0   failed 0

                 zone-1 -----------  zone-2 -----------
                 worker-1  worker-3  worker-2  worker-4
deploy shop/web       4→1       ·→1       ·→1       ·→1  collapsed → healthy
deploy shop/big         2         ·         ·         ·  collapsed, stays
all                   6→3       ·→1       ·→1       ·→1
(replicas by node; · none, but open to it; before→after)

Not moved, because a restart would not help or is not allowed:
  deploy shop/big: Insufficient memory (2 nodes)"""
    )


def test_a_plan_shows_one_check_and_what_would_be_done() -> None:
    node_list = nodes(4)
    before, _options = run_on(node_list)
    web, big = before["workloads"]
    planned = restart(web, action="would_restart", outcome="pending", expected={HOST: {**even(node_list, 4), "worker-1": 0, "worker-2": 2}})
    assert text(before, restart=planned, plan=True) == (
        """\
2 workloads in 1 namespace, 4 nodes, 4 of them open to these workloads
collapsed 2   skewed 0   plan: would_restart 1   refused 0   failed 0

                 zone-1 -----------  zone-2 -----------
                 worker-1  worker-3  worker-2  worker-4
deploy shop/web      4→~·      ·→~1      ·→~2      ·→~1  collapsed, would_restart
deploy shop/big         2         ·         ·         ·  collapsed, stays
all                  6→~2      ·→~1      ·→~2      ·→~1
(replicas by node; · none, but open to it; before→~expected)

Not moved, because a restart would not help or is not allowed:
  deploy shop/big: Insufficient memory (2 nodes)"""
    )
    condition = "all in one place; only if Deployment shop/web ends with worker-2=2"
    planned["workloads"] += restart(big, action="would_restart_if", outcome="pending", message=condition)["workloads"]
    shown = text(before, restart=planned, plan=True)
    assert "plan: would_restart 1, would_restart_if 1   refused" in shown and "collapsed, would_restart_if" in shown
    assert f"Planned on a condition:\n  deploy shop/big: {condition}" in shown


def test_columns_that_add_up_nodes_show_expected_replicas() -> None:
    node_list = nodes(40)
    web = workload("web", piled(node_list, 4), "collapsed", restart_helps=True, expected={HOST: even(node_list, 4)})
    shown = text(check([web], node_list), width=80)
    assert re.search(r"deploy shop/web +4→~2 +·→~2 +4→~1 +collapsed, a restart helps", shown), shown
    assert "worker-1 4→~1" in shown and "before→~expected" in shown


def test_a_node_that_is_closed_to_a_workload_stays_blank() -> None:
    node_list = nodes(3, zones=0)
    shown = text(check([workload("web", {"worker-1": 1, "worker-2": 0}, "healthy")], node_list))
    assert "deploy shop/web         1         ·  healthy" in shown
    assert "worker-3" not in shown


def test_nodes_are_found_by_their_host_name_and_not_by_their_name() -> None:
    node_list = nodes(4)
    counts = {f"host-{number}.example.org": 2 - number // 3 * 2 for number in range(1, 5)}
    for node, hostname in zip(node_list, counts, strict=True):
        node["hostname"] = hostname
    node_list[3].update(hostname="", schedulable=False)
    shown = text(check([workload("web", counts, "healthy")], node_list))
    assert re.search(r"zone-1 -+  zone-2 -+  no zone -+\n", shown), shown
    assert "cordoned" not in shown and "worker" not in shown


def test_nodes_that_are_cordoned_or_not_ready_are_marked() -> None:
    node_list = nodes(2, zones=0)
    node_list[0]["schedulable"] = False
    node_list[1]["ready"] = False
    shown = text(check([workload("web", even(node_list, 2), "healthy")], node_list))
    assert "worker-1*  worker-2*" in shown
    assert "* cordoned or not ready" in shown


def test_long_node_names_lose_what_they_have_in_common() -> None:
    before, options = run_on(nodes(6, name="k8s-prod-worker-{}.dc1.example.com"))
    shown = text(before, **options)
    assert re.search(r"^ +1 +3 +5 +2 +4 +6$", shown, re.MULTILINE)
    assert "the names are short forms of k8s-prod-worker-….dc1.example.com" in shown


@pytest.mark.parametrize(
    ("count", "zones", "expected"),
    [
        (60, 3, "(replicas by zone; "),
        (5000, 10, "(replicas by zone; "),
        (300, 0, "others"),
        (300, 300, "others"),
    ],
)
def test_many_nodes_are_condensed(count: int, zones: int, expected: str) -> None:
    before, options = run_on(nodes(count, zones=zones))
    shown = text(before, **options)
    assert expected in shown
    assert "fullest" in shown
    assert ": worker-1 6→3" in shown
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.parametrize("count", [2, 6, 9, 14, 31, 200])
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_longer_than_asked_for(count: int, width: int) -> None:
    before, options = run_on(nodes(count), healthy=3)
    assert max(map(len, text(before, width=width, **options).splitlines())) <= width


@pytest.mark.parametrize("width", [1, 60, 80, 108])
@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "example.com/a-topology-with-a-long-name"])
@pytest.mark.parametrize("count", [1, 4, 200])
@pytest.mark.parametrize("name", ["web", "a-workload-with-a-name-of-44-characters-long"])
def test_no_line_is_longer_than_asked_for_with_long_names(name: str, count: int, key: str, width: int) -> None:
    node_list = nodes(count, zones=3, name="a-node-with-a-long-name-{}-of-the-second-room.example.org")
    entries = [
        workload(one, piled(node_list, 5000), "collapsed", key=key, restart_helps=True) | {"namespace": "production-payments"}
        for one in (name, f"{name}-2")
    ]
    later = [entry | {"domains": {key: even(node_list, 5000)}, "verdict": "skewed"} for entry in entries]
    done = restart(*entries)
    for row in done["workloads"]:
        row.update(namespace="production-payments", action="evicted", outcome="unchanged", evicted=[{"pod": "p", "node": "n"}] * 12)
    stays = [entry | {"restart_helps": False} for entry in entries]
    shown = [
        text(check(entries, node_list), after=check(later, node_list), restart=done, width=width),
        text(check(stays, node_list), width=width),
    ]
    assert "12 pods" in shown[0] or width < 100
    assert max(len(line) for one in shown for line in one.splitlines()) <= max(width, MIN_WIDTH)


def test_names_are_shortened_only_as_far_as_two_columns_need_it() -> None:
    node_list = nodes(300, zones=0)
    long = "a-workload-with-a-name-of-44-characters-long"
    shown = text(check([workload(long, even(node_list, 300), "healthy")], node_list), width=80)
    (line,) = [line for line in shown.splitlines() if line.startswith("deploy")]
    assert line.startswith("deploy shop/a-workload") and "characters-long " in line and "…" in line and line.endswith("healthy")
    assert len(line) <= 80


def test_condensed_columns_add_everything_up() -> None:
    node_list = nodes(300, zones=0)
    shown = text(check([workload("web", even(node_list, 300), "healthy")], node_list))
    (line,) = [line for line in shown.splitlines() if line.startswith("deploy shop/web")]
    *cells, fullest, _verdict = line.split()[2:]
    assert sum(map(int, cells)) == 300
    assert fullest == "1"


def test_zones_without_replicas_are_open_in_a_cluster_with_more_nodes_than_the_check_lists() -> None:
    web = workload("web", {"worker-1": 4}, "collapsed", eligible_domains={"kubernetes.io/hostname": 300})
    shown = text(check([web], nodes(300, zones=3)))
    assert re.search(r"zone-1 +zone-2 +zone-3 +fullest\ndeploy shop/web +4 +· +· +4 +collapsed", shown), shown


def test_another_topology_is_shown_by_its_domains() -> None:
    key = "topology.kubernetes.io/zone"
    entry = workload("web", {"zone-a": 3, "zone-b": 0}, "collapsed", key=key)
    shown = text(check([entry], nodes(4)))
    assert "zone-a  zone-b" in shown
    assert f"(replicas by {key}; " in shown


def test_of_many_workloads_the_healthy_ones_are_counted() -> None:
    before, options = run_on(nodes(4), healthy=200)
    shown = text(before, max_rows=10, **options)
    assert shown.count("shop/fine-") == 8
    assert "192 more are not listed, 192 of them healthy or skipped" in shown


def test_the_same_advice_for_many_is_given_once() -> None:
    node_list = nodes(3)
    entries = [
        workload(f"w{n:02d}", piled(node_list, 2), "collapsed", advice=[{"reason": "code", "message": "do this"}]) for n in range(15)
    ]
    shown = text(check(entries, node_list))
    assert shown.count("do this") == 1
    assert "and 3 more: do this" in " ".join(shown.split())


def test_what_can_be_restarted_but_was_not_asked_for_is_said() -> None:
    before, _options = run_on(nodes(3))
    assert "1 workload can be restarted; " in text(before)


def test_too_few_nodes_judge_nothing() -> None:
    shown = text(check([], nodes(1), reason="too_few_ready_nodes", message="there is 1 node"))
    assert shown.splitlines()[-1] == "No workload was checked. There is 1 node."


def test_an_empty_cluster_has_no_table() -> None:
    assert text(check([])).startswith("0 workloads in 1 namespace, 0 nodes")


@pytest.mark.parametrize("verdict", ["unknown", "skipped"])
def test_what_was_not_judged_is_told_with_its_reason(verdict: str) -> None:
    node_list = nodes(2)
    entries = [workload(f"w{n}", even(node_list, 2), verdict, reason="no_domain", message="no label") for n in range(2)]
    assert text(check(entries, node_list)).endswith("Not checked:\n  deploy shop/w0, deploy shop/w1: no label")


def test_of_many_reasons_the_first_ones_are_told() -> None:
    node_list = nodes(2)
    entries = [workload(f"w{n:03d}", even(node_list, 2), "unknown", reason="not_placed", message=f"{n} of 300") for n in range(300)]
    assert text(check(entries, node_list)).endswith("deploy shop/w009: 9 of 300\n  290 more workloads for other reasons")


def test_an_error_is_told_first() -> None:
    assert text({"cluster": BERLIN}, error="cannot reach it") == f"{BERLIN_LINE}\nerror: cannot reach it"


def test_namespaces_that_were_left_out_are_told() -> None:
    skipped = [{"namespace": "vault", "reason": "unreadable", "message": "cannot list pods in namespace vault"}]
    shown = text(check([], nodes(2), skipped_namespaces=skipped))
    assert shown.endswith("Namespaces left out:\n  vault: cannot list pods in namespace vault")


def odd(name: str, message: str, *, namespace: str = "shop") -> dict[str, str]:
    return {"kind": "PodDisruptionBudget", "namespace": namespace, "name": name, "reason": "undecodable", "message": message}


def test_objects_that_cannot_be_decoded_are_told_once_whichever_module_met_them() -> None:
    first = check([], nodes(2), skipped_objects=[odd("web", "no number")])
    done = {**restart(), "skipped_objects": [odd("web", "no number"), odd("", "no name", namespace="")]}
    shown = text(first, restart=done)
    assert shown.splitlines()[-3:] == [
        "Objects that cannot be decoded:",
        "  PodDisruptionBudget: no name",
        "  PodDisruptionBudget shop/web: no number",
    ]


def test_plan_of_rescues_tells_which_objects_cannot_be_decoded() -> None:
    shown = render_rescue({"pods": [], "released": [], "skipped_objects": [odd("web", "no number")]})
    assert shown.endswith("Objects that cannot be decoded:\n    PodDisruptionBudget shop/web: no number")


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in text({}, error="\x1b[31mred")


def test_nodes_that_became_not_ready_are_named_above_the_map() -> None:
    later = nodes(2, zones=0)
    later[1]["ready"] = False
    entry = workload("web", even(later, 2), "healthy")
    shown = text(check([entry], nodes(2, zones=0)), after=check([entry], later))
    assert "Not ready at " in shown and ": worker-2\n" in shown
    assert "worker-2*" in shown and "* not ready" in shown


def test_namespaces_without_a_role_are_named_in_one_sentence() -> None:
    names = ("app", "shop", "vault")
    skipped = [
        {
            "namespace": name,
            "reason": "unreadable",
            "message": f"cannot list pods in namespace {name}. Grant the verb 'list' on pods in namespace {name} to this user",
        }
        for name in names
    ]
    shown = text(check([], nodes(2), skipped_namespaces=skipped), width=120)
    assert shown.count("cannot list pods") == 1 and "  app, shop, vault: cannot list pods in namespace app." in shown
