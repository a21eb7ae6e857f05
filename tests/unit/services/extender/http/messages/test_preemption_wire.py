# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The message of preempt is read in every form that Go would read, and the answer has the keys that Go writes."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import (
    BadRequestError,
    TooManyNodesError,
    preemption_answer,
    read_preemption_request,
)
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Victims

from tests.unit.services.extender.extender_objects import body, pod

META: dict[str, t.Any] = {
    "a": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1},
    "b": {"Pods": None, "NumPDBViolations": 0},
    "c": None,
}
WHOLE: dict[str, t.Any] = {
    "a": {"Pods": [pod("u1"), pod("u2")], "NumPDBViolations": 1},
    "b": {"Pods": [], "NumPDBViolations": 0},
    "c": None,
}
WANTED = {"a": (["u1", "u2"], 1), "b": ([], 0), "c": ([], 0)}


@pytest.mark.parametrize(
    "parts",
    [
        {"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": META},
        {"Pod": pod(), "NodeNameToVictims": WHOLE, "NodeNameToMetaVictims": None},
    ],
    ids=["meta", "whole pods"],
)
def test_victims_in_every_form(parts: dict[str, t.Any]) -> None:
    candidates = read_preemption_request(body(**parts)).candidates
    assert {name: (list(one.pod_uids), one.budget_violations) for name, one in candidates.items()} == WANTED


@pytest.mark.parametrize(
    ("candidates", "complaint"),
    [
        ({"NodeNameToMetaVictims": {"a": {"Pods": []}}}, "NumPDBViolations"),
        ({"NodeNameToMetaVictims": {"a": {"NumPDBViolations": 1}}}, "Pods"),
        ({"NodeNameToMetaVictims": {"a": {"Pods": [{}], "NumPDBViolations": 1}}}, "UID"),
        ({"NodeNameToMetaVictims": {"a": {"Pods": [], "numpdbviolations": 1}}}, "NumPDBViolations"),
        ({"NodeNameToVictims": {"a": {}}}, "missing required field"),
    ],
)
def test_victims_without_a_part_are_refused(candidates: dict[str, t.Any], complaint: str) -> None:
    with pytest.raises(BadRequestError, match=f"the body is not ExtenderPreemptionArgs: .*{complaint}"):
        read_preemption_request(body(Pod=pod(), **candidates))
    with pytest.raises(BadRequestError, match="the body is not ExtenderPreemptionArgs"):
        read_preemption_request(b"{")


def test_a_preemption_without_candidates() -> None:
    assert read_preemption_request(body(Pod=pod(), NodeNameToMetaVictims={})).candidates == {}
    with pytest.raises(BadRequestError, match="neither NodeNameToMetaVictims nor NodeNameToVictims"):
        read_preemption_request(body(Pod=pod()))


def test_a_preemption_answer_has_the_victims_of_the_kept_nodes() -> None:
    answer = json.loads(preemption_answer({"a": Victims(["u1"], 2), "b": Victims([], 0)}, ["a"]))
    assert answer == {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}}}
    assert json.loads(preemption_answer({"a": Victims(["u1"], 2)}, [])) == {"NodeNameToMetaVictims": {}}


def test_a_preemption_with_more_nodes_than_any_cluster_is_refused() -> None:
    victims = {"Pods": None, "NumPDBViolations": 0}
    assert len(read_preemption_request(body(Pod=pod(), NodeNameToMetaVictims={"a": victims, "b": victims}), 2).candidates) == 2
    with pytest.raises(TooManyNodesError, match="more than 2 nodes"):
        read_preemption_request(body(Pod=pod(), NodeNameToMetaVictims=dict.fromkeys("abc", victims)), 2)
