# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a pass: the same values in the text of the file, on /metrics and in the Pushgateway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.filter.spread_metrics import spread_metrics
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rebalance_metrics import (
    RunGauge,
    metrics_text,
    rebalance_gauges,
)
from ansible_collections.onprem.kube_scheduling.services.rebalancer.metrics import LastPass, push, write_file
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

NOW = 1_767_225_600.125
BEFORE = {"summary": {"checked": 6, "healthy": 1, "collapsed": 3, "skewed": 1, "rolling": 0, "skipped": 1, "unknown": 0}}
AFTER = {"summary": {"checked": 6, "healthy": 3, "collapsed": 1, "skewed": 1, "rolling": 0, "skipped": 1, "unknown": 0}}
PREFIX = "kube_scheduling_rebalance_"


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "namespace": "shop", "name": name, **fields}


RESTART = {
    "workloads": [
        named("api", action="restarted", reason="collapsed", outcome="improved"),
        named("web", action="failed", reason="rollout_not_finished", outcome="failed"),
        named("cart", action="failed", reason="error", outcome=""),
        named("search", action="skipped", reason="cooldown", outcome=""),
    ]
}


def gauges() -> list[RunGauge]:
    return rebalance_gauges(BEFORE, after=AFTER, restart=RESTART, now_s=NOW)


def uneven(*entries: dict[str, Any], restartable: tuple[str, ...] = (), **arguments: Any) -> dict[str, str]:
    """Return the reasons of the uneven workloads by name. The entries are those of the first check."""
    check = {**BEFORE, "workloads": list(entries), "restartable": [named(name) for name in restartable]}
    (found,) = (gauge for gauge in rebalance_gauges(check, now_s=NOW, **arguments) if gauge.name == f"{PREFIX}uneven_workload")
    assert found.labels == ("workload_kind", "workload_namespace", "workload_name", "verdict", "reason")
    assert {(kind, namespace) for kind, namespace, *_ in found.values} <= {("Deployment", "shop")}
    assert set(found.values.values()) <= {1.0}
    return {name: reason for _kind, _namespace, name, _verdict, reason in found.values}


def values(text: str) -> dict[tuple[str, str], float]:
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"} and all(family.documentation for family in families)
    return {(sample.name, "/".join(sample.labels.values())): sample.value for family in families for sample in family.samples}


def last_pass() -> LastPass:
    last = LastPass()
    last.gauges = gauges()
    return last


def test_the_workloads_are_those_of_the_last_check() -> None:
    found = values(metrics_text(gauges()))
    verdicts = {"healthy": 3, "collapsed": 1, "skewed": 1, "rolling": 0, "skipped": 1, "unknown": 0}
    assert found == {
        **{(f"{PREFIX}workloads", verdict): float(count) for verdict, count in verdicts.items()},
        **{(f"{PREFIX}moved_workloads", outcome): 0.0 for outcome in ("unchanged", "worse", "pending")},
        (f"{PREFIX}moved_workloads", "improved"): 1.0,
        (f"{PREFIX}moved_workloads", "failed"): 1.0,
        (f"{PREFIX}failed", ""): 2.0,
        (f"{PREFIX}last_run_timestamp_seconds", ""): NOW,
    }


def test_a_run_that_cannot_read_the_cluster_has_failed_and_has_no_workloads() -> None:
    found = values(metrics_text(rebalance_gauges(None, error="no answer", now_s=NOW)))
    assert found == {
        **{(f"{PREFIX}moved_workloads", outcome): 0.0 for outcome in ("improved", "unchanged", "worse", "failed", "pending")},
        (f"{PREFIX}failed", ""): 1.0,
        (f"{PREFIX}last_run_timestamp_seconds", ""): NOW,
    }


def test_a_plan_has_moved_nothing() -> None:
    names = {gauge.name for gauge in rebalance_gauges(BEFORE, restart=RESTART, plan=True, now_s=NOW)}
    assert f"{PREFIX}moved_workloads" not in names and f"{PREFIX}workloads" in names


def test_each_uneven_workload_has_the_reason_why_it_is_not_moved() -> None:
    full = {"reason": "resources", "message": "Insufficient memory", "nodes": 5}
    found = uneven(
        named("restartable", verdict="collapsed", blockers=[]),
        named("full", verdict="collapsed", blockers=[full]),
        named("used-up", verdict="collapsed", blockers=[full, {"reason": "attempts_used_up", "message": "", "nodes": 0}]),
        named("by-scores", verdict="skewed", blockers=[{"reason": "scoring_does_not_spread", "message": "", "nodes": 0}, full]),
        named("healthy", verdict="healthy", blockers=[]),
        named("rolling", verdict="rolling", blockers=[]),
        restartable=("restartable",),
    )
    assert found == {"restartable": "", "full": "no_gain", "used-up": "attempts_used_up", "by-scores": "scoring_does_not_spread"}


def test_the_reason_of_the_run_counts_before_that_of_the_check() -> None:
    entries = [named(name, verdict="collapsed", blockers=[]) for name in ("limited", "broken", "planned")]
    done = [
        named("limited", action="skipped", reason="limit_reached"),
        named("broken", action="failed", reason="error"),
        # Evictions take workloads that a rollout would not take, and their reason in a plan is the verdict.
        named("planned", action="evicted", reason="collapsed"),
    ]
    found = uneven(*entries, restartable=("limited", "broken"), restart={"workloads": done})
    assert found == {"limited": "limit_reached", "broken": "error", "planned": ""}


def test_a_workload_that_is_uneven_after_its_restart_has_the_reason_of_the_second_check() -> None:
    waits = {"reason": "cooldown", "message": "", "nodes": 0}
    after = {**AFTER, "workloads": [named("web", verdict="collapsed", blockers=[waits])], "restartable": []}
    done = {"workloads": [named("web", action="restarted", reason="collapsed", outcome="unchanged")]}
    before = named("web", verdict="collapsed", blockers=[])
    assert uneven(before, restartable=("web",), after=after, restart=done) == {"web": "cooldown"}


def test_values_of_labels_are_escaped() -> None:
    odd = 'a"b\\c\nd'
    text = metrics_text([RunGauge("some", "Some.", ("one", "two"), {(odd, "plain"): 1.0})])
    ((sample,),) = (family.samples for family in text_string_to_metric_families(text))
    assert sample.labels == {"one": odd, "two": "plain"}


def test_the_text_has_the_values_of_the_served_metrics() -> None:
    registry = CollectorRegistry()
    registry.register(last_pass())
    assert values(generate_latest(registry).decode()) == values(metrics_text(gauges()))


def test_nothing_is_served_before_the_first_pass() -> None:
    registry = CollectorRegistry()
    registry.register(LastPass())
    assert generate_latest(registry) == b""


def test_the_filter_of_the_playbook_returns_the_same_text() -> None:
    def without_time(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("kube_scheduling_rebalance_last_run")]

    assert without_time(spread_metrics(BEFORE, after=AFTER, restart=RESTART)) == without_time(metrics_text(gauges()))
    assert "kube_scheduling_rebalance_failed 1.0" in spread_metrics({}, after={}, restart={}, error="no answer")
    with pytest.raises(Exception, match=r"restart must be .*, not list"):
        spread_metrics(BEFORE, restart=[1])


def test_a_file_is_replaced_and_can_be_read_by_all(tmp_path: Path) -> None:
    file = tmp_path / "rebalance.prom"
    file.write_text("old")
    with file.open() as reader:
        write_file(last_pass(), file)
        assert reader.read() == "old", "a reader of the old file is not disturbed"
    assert values(file.read_text()) == values(metrics_text(gauges())) and file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_replaced_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "rebalance.prom").mkdir()
    with pytest.raises(OSError):
        write_file(last_pass(), tmp_path / "rebalance.prom")
    assert [path.name for path in tmp_path.iterdir()] == ["rebalance.prom"]
    with pytest.raises(OSError):
        write_file(last_pass(), tmp_path / "missing" / "rebalance.prom")


class Gateway(BaseHTTPRequestHandler):
    """Records one request for each push. ``status`` is its answer."""

    requests: list[tuple[str, str, str]]
    status: int

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.requests.append((self.command, self.path, body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        return


@pytest.fixture
def gateway() -> Iterator[tuple[str, type[Gateway]]]:
    """An HTTP server that records pushes: its address, and the class with the requests."""
    handler = type("RecordingGateway", (Gateway,), {"requests": [], "status": 200})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_push_replaces_the_group_of_the_job(gateway: tuple[str, type[Gateway]]) -> None:
    url, handler = gateway
    push(last_pass(), url)
    ((method, path, body),) = handler.requests
    assert (method, path) == ("PUT", "/metrics/job/kube_scheduling_rebalance")
    assert values(body) == values(metrics_text(gauges()))


def test_a_gateway_that_refuses_or_is_gone_is_an_os_error(gateway: tuple[str, type[Gateway]]) -> None:
    url, handler = gateway
    handler.status = 400
    with pytest.raises(OSError):
        push(last_pass(), url)
    with pytest.raises(OSError):
        push(last_pass(), "http://127.0.0.1:1")
