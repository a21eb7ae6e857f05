# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of Prometheus, and what it does not scrape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus import (
    Prometheus,
    Target,
    object_problems,
    target_of,
    target_problems,
)

KEPT: list[Target] = [
    {"targets": ["10.0.0.9:9100"], "labels": {"node": "kept", "__scheme__": "https", "__meta_inventory_hostname": "Node-1"}},
]


UNKNOWN = {"address": "", "node": "", "scheme": None, "default_scheme": "http", "path": "/metrics"}


@pytest.mark.parametrize(
    ("variables", "kept", "address", "node", "scheme"),
    [
        ({}, [], [], "node-1", "http"),
        ({}, KEPT, ["10.0.0.9:9100"], "kept", "https"),
        ({"node": "host-1"}, KEPT, ["10.0.0.9:9100"], "host-1", "https"),
        ({"address": "10.0.0.1:9100", "scheme": "http"}, KEPT, ["10.0.0.1:9100"], "kept", "http"),
        ({"default_scheme": "https"}, [], [], "node-1", "https"),
    ],
)
def test_target_has_what_is_known_last(variables: dict[str, Any], kept: list[Target], address: list[str], node: str, scheme: str) -> None:
    found = target_of("Node-1", UNKNOWN | variables, kept)
    assert found["targets"] == address and found["labels"]["node"] == found["labels"]["instance"] == node
    assert found["labels"]["__scheme__"] == scheme and found["labels"]["__metrics_path__"] == "/metrics"


def target(host: str, address: str, node: str = "", path: str = "/metrics") -> Target:
    return {"targets": [address], "labels": {"node": node or host, "__metrics_path__": path, "__meta_inventory_hostname": host}}


def test_targets_that_are_no_machine_of_their_own_are_named() -> None:
    targets = [
        target("a", "10.0.0.1:9100"),
        target("b", "10.0.0.1:9100"),
        target("c", "10.0.0.1:9100", path="/c"),
        target("d", "127.0.0.1:1"),
    ]
    local, same = target_problems(targets, [])
    assert local.startswith("The target of d is 127.0.0.1:1, which is another machine for Prometheus: set")
    assert same.startswith("a, b have the same target 10.0.0.1:9100/metrics, so one machine would count as several nodes: set")
    assert target_problems(targets[2:], ["d"]) == []
    (twice,) = target_problems([target("a", "10.0.0.1:1", "n"), target("b", "10.0.0.2:1", "n")], [])
    assert twice.startswith("a, b have the same node name n: set")


def test_an_object_has_one_scheme_one_path_and_a_service_monitor_only_addresses() -> None:
    def one(address: str, scheme: str = "http", path: str = "/metrics") -> Target:
        return {"targets": [address], "labels": {"__scheme__": scheme, "__metrics_path__": path}}

    good = [one("10.0.0.1:9100"), one("[fd00::1]:9100")]
    assert object_problems(good, "service_monitor") == object_problems([*good, one("node-3:9100")], "scrape_config") == []
    (name,) = object_problems([*good, one("node-3:9100")], "service_monitor")
    assert name.startswith("node-3:9100: a ServiceMonitor needs IP addresses with a port")
    (mixed,) = object_problems([*good, one("10.0.0.3:1", "https")], "scrape_config")
    assert mixed.startswith("The hosts have http, https, /metrics, and node_exporter_prometheus_objects needs one scheme and one path")


def missing(folder: Path, kept: list[Target], active: list[Target] | None, **given: Any) -> list[str]:
    """Return what is missing if the file has some targets, and Prometheus others."""
    variables = {"folder": str(folder), "host": "monitoring", "hosts": ["a", "b"], "url": "URL", "job": "j", **given}
    (folder / "targets.yml").write_text(f"# by the role\n---\n{json.dumps(kept)}\n")
    answer = Answer(200, json.dumps({"data": {"activeTargets": active}}), "") if active is not None else Answer(-1, "", "refused")
    return Prometheus(variables, lambda words: (1, "", ""), Changes(dry=False)).missing(lambda url, **options: answer, {})


def test_a_target_that_is_not_scraped_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    targets = [target("a", "10.0.0.1:9100"), target("b", "10.0.0.2:9100")]
    up = {"labels": {"node": "a"}, "health": "up"}
    down = {"labels": {"node": "b"}, "health": "down", "scrapeUrl": "http://10.0.0.2:9100/metrics", "lastError": "refused"}
    assert missing(tmp_path, targets, [up, down | {"health": "up"}]) == []
    assert missing(tmp_path, targets, [up, down]) == ["Prometheus URL cannot scrape http://10.0.0.2:9100/metrics of the node b: refused"]
    assert not waits
    (unknown,) = missing(tmp_path, targets, [up])
    assert unknown.startswith("Prometheus URL does not know the target 10.0.0.2:9100 of the node b: name the file ")
    assert waits == [3] * 10
    (new,) = missing(tmp_path, targets, [up, down | {"health": "unknown", "lastError": ""}])
    assert new.endswith("of the node b: it was not scraped yet") and len(waits) == 20
    assert missing(tmp_path, targets, None) == ["Prometheus URL does not answer: Status code was -1 and not [200]: refused"]


def test_a_host_that_is_no_target_and_a_prometheus_without_targets_are_named(tmp_path: Path) -> None:
    (host,) = missing(tmp_path, [target("a", "10.0.0.1:9100")], None, url="")
    assert host.startswith("b is not a target of Prometheus on monitoring: run the playbook")
    (none,) = missing(tmp_path, [], None, url="")
    assert none.startswith("monitoring has no targets of node_exporter for Prometheus: run the playbook")


@pytest.mark.parametrize(("text", "problems"), [("---\n[]\n", 0), ("---\n- targets:\n  - 10.0.0.9:9100\n", 1)])
def test_targets_in_another_form_are_not_lost_by_a_run_for_other_hosts(tmp_path: Path, text: str, problems: int) -> None:
    (tmp_path / "targets.yml").write_text(text)
    host = UNKNOWN | {"reaches_itself": False}
    given = {"hosts": {"node-1": host}, "folder": str(tmp_path), "objects": "none"}
    warnings: list[str] = []
    _targets, found = Prometheus(given, lambda *_: (0, "", ""), Changes(dry=True)).targets(warnings.append)
    assert len(found) == problems and len(warnings) == 1 - problems
    assert all("the targets of node-1 cannot be kept: run the playbook once without --limit" in problem for problem in found)
    given["hosts"] = {"node-1": host | {"address": "10.0.0.1:9100"}}
    assert Prometheus(given, lambda *_: (0, "", ""), Changes(dry=True)).targets(warnings.append)[1] == []
