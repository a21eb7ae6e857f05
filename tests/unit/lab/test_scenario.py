# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario files: what they mean, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import scenario
from lab.errors import LabError
from lab.nodes import manifests_of
from lab.scenario import RACK_LABEL, ZONE_LABEL


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", scenario.shipped())
def test_shipped_scenarios_are_valid(name: str) -> None:
    assert scenario.load(name).node_count >= 2


def test_big_has_5000_workers_and_each_rack_lies_in_one_zone() -> None:
    workers = [node for node in manifests_of(scenario.load("big")) if node["metadata"]["name"].startswith("worker")]
    assert len(workers) == 5000
    labels = [node["metadata"]["labels"] for node in workers]
    pairs = {(label[ZONE_LABEL], label[RACK_LABEL]) for label in labels}
    assert len(pairs) == len({rack for _, rack in pairs}) == 250
    assert len({node["status"]["addresses"][0]["address"] for node in workers}) == 5000


def test_a_group_becomes_node_objects(tmp_path: Path) -> None:
    text = """
nodes:
  - prefix: db
    count: 2
    zone: a
    racks: 2
    labels: {disk: nvme}
    taints: [{key: dedicated, value: db, effect: NoExecute}]
    capacity: {cpu: 16, example.com/gpu: 2}
    allocatable: {cpu: 15500m}
    control_plane: true
    unschedulable: true
"""
    first, second = manifests_of(scenario.load(written(tmp_path, text)))
    assert [first["metadata"]["name"], second["metadata"]["name"]] == ["db-1", "db-2"]
    labels = second["metadata"]["labels"]
    assert (labels["disk"], labels[ZONE_LABEL], labels[RACK_LABEL]) == ("nvme", "a", "rack-2")
    assert labels["node-role.kubernetes.io/control-plane"] == ""
    assert first["status"]["capacity"]["cpu"] == "16"
    assert first["status"]["capacity"]["pods"] == "110"
    assert first["status"]["allocatable"]["cpu"] == "15500m"
    assert first["status"]["allocatable"]["example.com/gpu"] == "2"
    assert first["spec"]["unschedulable"] is True
    assert [taint["effect"] for taint in first["spec"]["taints"]] == ["NoExecute", "NoSchedule"]


def test_untainted_control_plane_has_no_taint() -> None:
    nodes = list(manifests_of(scenario.load("untainted-control-plane")))
    assert all(node["spec"]["taints"] == [] for node in nodes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "not YAML"),
        ("- a", "top level: must be a mapping, not list"),
        ("node: []", "unknown key node; known are nodes"),
        ("nodes: []", "nodes: must be a list"),
        ("nodes: [{count: 2}]", r"nodes\[0\].prefix: None must be"),
        ("nodes: [{prefix: Worker}]", r"nodes\[0\].prefix: 'Worker'"),
        ("nodes: [{prefix: a, colour: red}]", r"nodes\[0\]: unknown key colour; known are allocatable, capacity"),
        ("nodes: [{prefix: a, count: 0}]", r"nodes\[0\].count: 0 must be"),
        ("nodes: [{prefix: a, capacity: {memory: 12Gb}}]", r"nodes\[0\].capacity.memory: '12Gb' is not a quantity"),
        ("nodes: [{prefix: a, capacity: {cpu: -1}}]", r"nodes\[0\].capacity.cpu: -1 is not a quantity"),
        ("nodes: [{prefix: a, capacity: 4}]", r"nodes\[0\].capacity: must be a mapping, not int"),
        ("nodes: [{prefix: a, labels: {x: 1}}]", r"nodes\[0\].labels.x: 1 must be a string"),
        (
            "nodes: [{prefix: a, taints: [{key: k, effect: Never}]}]",
            r"taints\[0\].effect: 'Never' must be one of NoSchedule",
        ),
        ("nodes: [{prefix: a, taints: [{effect: NoSchedule}]}]", r"taints\[0\]: has no key"),
        ("nodes: [{prefix: a, zone: x, zones: [y]}]", r"nodes\[0\]: has both zone and zones: keep one"),
        ("nodes: [{prefix: a, racks: [1]}]", r"nodes\[0\].racks: \[1\] must be a name or"),
        ("nodes: [{prefix: a, tainted: 1}]", r"nodes\[0\].tainted: 1 must be true or false"),
        ("nodes: [{prefix: a}, {prefix: a}]", "node a-1 comes twice"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(LabError, match=message) as error:
        scenario.load(path)
    assert str(path) in str(error.value)


def test_unknown_scenario_names_the_shipped_ones() -> None:
    with pytest.raises(LabError, match=r"scenario huge: no such file.*big, demo"):
        scenario.load("huge")
