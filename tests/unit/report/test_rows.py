# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Before, actions and after of a run come together in one row for each workload, and in a few totals."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.report_data import report_data
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import (
    ReportError,
    Row,
    build_report,
    by_message,
    natural,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions

from tests.unit.report.results import HOST, check, even, nodes, piled, restart, workload
from tests.unit.support.cluster import workers

NODES = nodes(3)
WEB = workload("web", piled(NODES, 3), "collapsed", restart_helps=True)
WEB_SPREAD = workload("web", even(NODES, 3), "healthy")


def only_row(*args: t.Any, **options: t.Any) -> Row:
    (row,) = build_report(*args, **options).rows
    return row


def test_a_restarted_workload_has_before_after_and_outcome() -> None:
    row = only_row(check([WEB], NODES), after=check([WEB_SPREAD], NODES), restart=restart(WEB))
    assert (row.before.fullest, row.last.fullest) == (3, 1)
    assert (row.before.verdict, row.last.verdict) == ("collapsed", "healthy")
    assert (row.action, row.outcome, row.duration_s) == ("restarted", "improved", 7)


def test_in_a_plan_nothing_was_restarted_and_there_is_no_outcome() -> None:
    expected = {HOST: even(NODES, 3)}
    done = restart(WEB, action="would_restart", outcome="pending", expected=expected)
    report = build_report(check([WEB], NODES), restart=done, plan=True)
    (row,) = report.rows
    assert (row.action, row.outcome, row.after, row.expected) == ("would_restart", "", None, even(NODES, 3))
    assert (report.totals["would_restart"], report.totals["restarted"]) == (1, 0)
    assert report_data(report)["workloads"][0]["expected"] == even(NODES, 3)


def test_only_what_is_to_be_moved_has_expected_replicas() -> None:
    web = {**WEB, "expected": {HOST: even(NODES, 3)}}
    assert only_row(check([web], NODES)).expected == even(NODES, 3)
    refused = restart(WEB, action="refused", expected={})
    assert only_row(check([web], NODES), restart=refused, plan=True).expected == {}
    assert only_row(check([web], NODES), restart=restart(WEB)).expected == {}


def test_what_is_restartable_without_a_restart_being_asked_for_is_said_to_wait() -> None:
    assert only_row(check([WEB], NODES)).action == "a restart helps"


@pytest.mark.parametrize(
    ("helps", "blockers", "why"),
    [
        (False, [], "a restart would not .*"),
        (
            False,
            [{"reason": "insufficient_memory", "message": "Insufficient memory", "nodes": 5}],
            r"Insufficient memory \(5 nodes\)",
        ),
        (False, [{"reason": "taint", "message": "tainted", "nodes": 1}], r"tainted \(1 node\)"),
        (True, [{"reason": "paused", "message": "is paused", "nodes": 0}], "is paused"),
        (None, [], "it is unknown [^:]*"),
        (
            None,
            [{"reason": "volume", "message": "zone of a volume", "nodes": 0}],
            "it is unknown [^:]*: zone of a volume",
        ),
    ],
)
def test_what_stays_says_why(helps: t.Any, blockers: list[t.Any], why: str) -> None:
    row = only_row(check([workload("web", piled(NODES, 3), "collapsed", restart_helps=helps, blockers=blockers)], NODES))
    assert (row.action, row.reason) == ("stays", "") and re.fullmatch(why, row.message), row.message


@pytest.mark.parametrize("action", ["refused", "skipped", "failed"])
def test_an_action_that_did_not_restart_gives_its_own_reason(action: str) -> None:
    row = only_row(check([WEB], NODES), restart=restart(WEB, action=action, outcome="", reason="cooldown", message="wait 5 s"))
    assert (row.action, row.reason, row.message) == (action, "cooldown", "wait 5 s")


def test_without_a_second_check_the_restart_tells_where_the_replicas_are() -> None:
    done = restart(WEB)
    done["workloads"][0]["after"] = {HOST: even(NODES, 3)}
    assert only_row(check([WEB], NODES), restart=done).last.fullest == 1


def test_workloads_that_came_or_went_meanwhile_are_listed() -> None:
    report = build_report(check([WEB], NODES), after=check([workload("new", even(NODES, 2), "healthy")], NODES))
    assert {(row.name, row.before.verdict, row.last.verdict) for row in report.rows} == {
        ("web", "collapsed", "gone"),
        ("new", "new", "healthy"),
    }


def test_what_was_done_comes_first_and_what_is_healthy_last() -> None:
    entries = [
        workload("healthy", even(NODES, 3), "healthy"),
        workload("skipped", even(NODES, 1), "skipped"),
        workload("stays", piled(NODES, 3), "collapsed"),
        workload("rolling", piled(NODES, 3), "rolling"),
        workload("failed", piled(NODES, 3), "collapsed"),
        WEB,
    ]
    done = restart(WEB)
    done["workloads"] += restart(entries[4], action="failed", outcome="failed")["workloads"]
    report = build_report(check(entries, NODES), restart=done)
    assert [row.name for row in report.rows] == ["failed", "web", "stays", "rolling", "skipped", "healthy"]
    assert [row.name for row in report.rows if row.unremarkable] == ["skipped", "healthy"]


def test_what_became_worse_is_not_quiet() -> None:
    row = only_row(
        check([workload("web", even(NODES, 3), "healthy")], NODES),
        after=check([workload("web", piled(NODES, 3), "collapsed")], NODES),
    )
    assert not row.unremarkable


def test_totals_of_a_run() -> None:
    other = workload("other", piled(NODES, 3), "collapsed")
    report = build_report(check([WEB, other], NODES), after=check([WEB_SPREAD, other], NODES), restart=restart(WEB))
    assert report.totals == {
        "ok": True,
        "plan": False,
        "cluster": {"name": "", "context": "", "server": ""},
        "checked": 2,
        "collapsed_before": 2,
        "collapsed_after": 1,
        "skewed_before": 0,
        "skewed_after": 0,
        "restartable": 1,
        "restarted": 1,
        "evicted": 0,
        "would_restart": 0,
        "would_restart_if": 0,
        "would_evict": 0,
        "would_evict_if": 0,
        "skipped": 0,
        "refused": 0,
        "failed": 0,
        "improved": 1,
        "reason": "",
        "message": "",
        "error": "",
    }


@pytest.mark.parametrize(
    ("options", "ok"),
    [
        ({}, True),
        ({"restart": restart(WEB, action="refused")}, True),
        ({"restart": restart(WEB, action="failed", outcome="failed")}, False),
        ({"error": "unreachable"}, False),
    ],
)
def test_ok_means_that_nothing_failed(options: dict[str, t.Any], ok: bool) -> None:
    assert build_report(check([WEB], NODES), **options).totals["ok"] is ok


@pytest.mark.parametrize("nothing", [None, {}, "", {"skipped": True}, {"failed": True, "msg": "unreachable"}])
def test_results_of_skipped_and_failed_tasks_count_as_missing(nothing: t.Any) -> None:
    report = build_report(nothing, after=nothing, restart=nothing)
    assert report.rows == ()
    assert report.totals["checked"] == 0


def test_something_else_than_a_result_is_refused_by_name() -> None:
    with pytest.raises(ReportError, match=r"after must be .*, not list"):
        build_report(check([]), after=[1])


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["w-10", "w-2", "w-1"], ["w-1", "w-2", "w-10"]),
        (["b", "a10b2", "a10b1", "a9"], ["a9", "a10b1", "a10b2", "b"]),
        (["", "1", "a"], ["", "1", "a"]),
    ],
)
def test_names_are_ordered_as_people_count(names: list[str], ordered: list[str]) -> None:
    assert sorted(names, key=natural) == ordered


def test_the_check_returns_what_the_report_reads() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    result = check_result(check_spread(cluster.snapshot(), CheckOptions()), CheckOptions(), include_healthy=True)
    row = only_row(result)
    assert row.before.counts == {"worker-1": 3, "worker-2": 0, "worker-3": 0}
    assert (row.before.verdict, row.action) == ("collapsed", "a restart helps")


def test_a_workload_that_became_healthy_is_not_shown_as_gone_where_healthy_ones_are_left_out() -> None:
    done = restart(WEB)
    done["workloads"][0]["after"] = {HOST: even(NODES, 3)}
    later = check([], NODES)
    later["summary"].update(checked=1, healthy=1)
    row = only_row(check([WEB], NODES), after=later, restart=done)
    assert (row.last.verdict, row.last.counts, row.outcome) == ("healthy", even(NODES, 3), "improved")


def test_a_workload_that_nothing_was_done_with_is_not_called_gone_where_healthy_ones_are_left_out() -> None:
    later = check([], NODES)
    later["summary"].update(checked=1, healthy=1)
    row = only_row(check([workload("web", piled(NODES, 3), "rolling")], NODES), after=later)
    assert (row.last.verdict, row.last.reason) == ("not listed", "not_listed")


def test_a_workload_that_was_healthy_at_first_is_not_called_new_where_healthy_ones_are_left_out() -> None:
    first = check([], NODES)
    first["summary"].update(checked=1, healthy=1)
    row = only_row(first, after=check([workload("web", even(NODES, 3), "rolling")], NODES))
    assert (row.before.verdict, row.last.verdict) == ("not listed", "rolling")


def test_a_workload_that_was_deleted_is_gone_where_all_are_listed() -> None:
    done = restart(WEB)
    done["workloads"][0]["after"] = {HOST: even(NODES, 3)}
    row = only_row(check([WEB], NODES), after=check([], NODES), restart=done)
    assert row.last.verdict == "gone"


def test_nodes_that_became_not_ready_or_vanished_during_the_run_are_marked_and_named() -> None:
    later = nodes(4)[:3]
    later[1]["ready"] = False
    report = build_report(check([WEB], nodes(4)), after=check([WEB_SPREAD], later))
    assert report.lost_nodes == ("worker-2", "worker-4")
    assert {node.name: node.ready for node in report.nodes} == {
        "worker-1": True,
        "worker-2": False,
        "worker-3": True,
        "worker-4": False,
    }


def test_nodes_that_joined_during_the_run_are_known() -> None:
    report = build_report(check([WEB], nodes(2)), after=check([WEB_SPREAD], nodes(3)))
    assert ([node.name for node in report.nodes], report.lost_nodes) == (["worker-1", "worker-3", "worker-2"], ())


@pytest.mark.parametrize("after", [None, {}, check([WEB])])
def test_without_a_second_list_of_nodes_none_is_lost(after: t.Any) -> None:
    report = build_report(check([WEB], NODES), after=after)
    assert report.lost_nodes == () and all(node.ready for node in report.nodes)


def test_texts_about_one_missing_role_are_one() -> None:
    texts = [
        f"error: cannot patch deployments {name}: forbidden (HTTP 403). Grant the verb 'patch' on deployments in namespace a to this user."
        for name in ("a/x", "a/y")
    ]
    others = ["Grant the verb 'list' on pods in namespace a to this user.", "something else"]
    found = by_message(zip([*texts, *others], ["x", "y", "a", "b"], strict=True))
    assert found == [(texts[0], ["x", "y"]), (others[0], ["a"]), (others[1], ["b"])]


def test_a_verb_that_is_missing_in_several_namespaces_is_not_asked_for_in_one_only() -> None:
    texts = [f"cannot patch {name}/x. Grant the verb 'patch' on deployments in namespace {name} to this user." for name in "ab"]
    ((text, names),) = by_message(zip(texts, ["x", "y"], strict=True))
    assert names == ["x", "y"] and text.startswith(f"{texts[0]} ") and "the same verb" in text
