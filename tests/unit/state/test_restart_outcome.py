# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Cooldown, back-off and the limit of attempts, and what a foreign hand may write into the annotation."""

from __future__ import annotations

import json

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import Distribution
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.permission import cooldown_permission
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.skew_cost import measure_skew
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import (
    OUTCOME_ANNOTATION,
    RestartOutcome,
    SkewMeasure,
    eligible_hash,
    make_outcome,
    read_outcome,
)

SKEW = SkewMeasure("b1", (9,))
T0 = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def outcome(verdict: str = "unchanged", attempts: int = 1, revision: str = "r1", eligible: str = "e1") -> RestartOutcome:
    return make_outcome(now_s=T0, attempts=attempts, outcome=verdict, revision=revision, eligible=eligible)


def ask(remembered: RestartOutcome | None, after_s: float, *, revision: str = "r1", eligible: str = "e1") -> tuple[str, int]:
    permission = cooldown_permission(
        remembered, now_s=T0 + after_s, revision=revision, eligible=eligible, skew=SKEW, cooldown_s=600, max_attempts=3
    )
    return permission.violation.code if permission.violation else "", permission.attempts


@pytest.mark.parametrize(
    ("remembered", "after_s", "others", "expected"),
    [
        pytest.param(None, 0, {}, ("", 1), id="nothing remembered"),
        pytest.param(outcome(), 599, {}, ("cooldown", 1), id="within the cooldown"),
        pytest.param(outcome(), 600, {}, ("", 2), id="cooldown over: the second attempt"),
        pytest.param(outcome(attempts=2), 1199, {}, ("cooldown", 2), id="doubled after two without effect"),
        pytest.param(outcome(attempts=2), 1200, {}, ("", 3), id="doubled cooldown over"),
        pytest.param(outcome(attempts=3), 10**6, {}, ("attempts_used_up", 3), id="no fourth attempt"),
        pytest.param(outcome(attempts=3), 2400, {"eligible": "e2"}, ("", 4), id="other nodes allow one more attempt"),
        pytest.param(outcome(attempts=3), 2399, {"eligible": "e2"}, ("cooldown", 3), id="other nodes keep the back-off"),
        pytest.param(outcome(attempts=4), 10**6, {}, ("attempts_used_up", 4), id="that attempt is the last one on these nodes"),
        pytest.param(outcome(attempts=3), 1, {"revision": "r2"}, ("", 1), id="rolled by another client: counts as absent"),
        pytest.param(outcome("improved", attempts=0), 599, {}, ("cooldown", 0), id="cooldown also after success"),
        pytest.param(outcome("improved", attempts=0), 600, {}, ("", 1), id="success does not use attempts up"),
        pytest.param(outcome(), -301, {}, ("", 1), id="from the future: written by hand, counts as absent"),
        pytest.param(outcome(attempts=2), -300, {}, ("cooldown", 2), id="clocks may differ a little"),
    ],
)
def test_when_the_next_restart_may_be_tried(remembered, after_s, others, expected):
    assert ask(remembered, after_s, **others) == expected


@pytest.mark.parametrize(
    ("verdict", "lowest_cost", "expected"),
    [
        pytest.param("pending", (10,), ("", 3), id="a pending attempt that has made progress does not count"),
        pytest.param("pending", (9,), ("attempts_used_up", 3), id="the same cost is no progress"),
        pytest.param("pending", (8, 99), ("attempts_used_up", 3), id="the first topology key decides"),
        pytest.param("pending", None, ("attempts_used_up", 3), id="the cost before is not known"),
        pytest.param("unchanged", (10,), ("attempts_used_up", 3), id="a concluded attempt has been counted"),
    ],
)
def test_pending_attempt_counts_unless_it_has_made_progress(verdict, lowest_cost, expected):
    remembered = replace(outcome(verdict, attempts=3), basis="b1", lowest_cost=lowest_cost)
    assert ask(remembered, 10**6) == expected
    assert ask(replace(remembered, basis="b2"), 10**6) == ("attempts_used_up", 3), "costs of another basis are not compared"


def test_any_number_of_attempts_gives_a_time():
    permission = cooldown_permission(
        outcome(attempts=5000), now_s=T0, revision="r1", eligible="e1", skew=SKEW, cooldown_s=600, max_attempts=10**6
    )
    assert permission.violation is not None and permission.violation.code == "cooldown"


def test_the_annotation_is_one_small_json_with_exactly_the_agreed_keys():
    text = outcome().to_annotation()
    assert json.loads(text) == {"time": "2026-01-01T00:00:00Z", "attempts": 1, "outcome": "unchanged", "revision": "r1", "eligible": "e1"}
    assert read_outcome({OUTCOME_ANNOTATION: text}) == outcome()


def test_an_annotation_with_all_keys_is_read_back_as_it_was_written():
    written = RestartOutcome(
        time="2026-01-01T00:00:00Z",
        attempts=1,
        outcome="pending",
        revision="r1",
        eligible="e1",
        number=7,
        expected="db-6c9f",
        generation=4,
        constraints=("kubernetes.io/hostname",),
    )
    assert read_outcome({OUTCOME_ANNOTATION: written.to_annotation()}) == written
    assert set(json.loads(written.to_annotation())) == {
        "time",
        "attempts",
        "outcome",
        "revision",
        "eligible",
        "number",
        "expected",
        "generation",
        "constraints",
    }


def test_an_annotation_of_an_earlier_version_is_read():
    text = '{"time":"2026-01-01T00:00:00Z","attempts":2,"outcome":"unchanged","revision":"r1","eligible":"e1"}'
    assert read_outcome({OUTCOME_ANNOTATION: text}) == outcome(attempts=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "nonsense",
        "[]",
        '{"time":"yesterday","attempts":1,"outcome":"failed","revision":"r","eligible":"e"}',
        '{"time":"2026-01-01T00:00:00","attempts":1,"outcome":"failed","revision":"r","eligible":"e"}',
        '{"time":"2026-01-01T00:00:00Z","attempts":-1,"outcome":"failed","revision":"r","eligible":"e"}',
        '{"time":"2026-01-01T00:00:00Z","attempts":1,"outcome":"great","revision":"r","eligible":"e"}',
        '{"time":"2026-01-01T00:00:00Z","attempts":1001,"outcome":"failed","revision":"r","eligible":"e"}',
        f'{{"time":"2026-01-01T00:00:00Z","attempts":{"9" * 4300},"outcome":"failed","revision":"r","eligible":"e"}}',
        f'{{"time":"2026-01-01T00:00:00Z","attempts":1,"outcome":"failed","revision":"r","eligible":"e","number":{2**63}}}',
        '{"time":"2026-01-01T00:00:00Z","attempts":1,"outcome":"failed","revision":"r","eligible":"e","constraints":[1]}',
    ],
)
def test_what_cannot_be_read_counts_as_absent(text):
    assert read_outcome({OUTCOME_ANNOTATION: text}) is None


def test_eligible_hash_depends_on_the_set_of_names_only():
    assert eligible_hash(["b", "a"]) == eligible_hash(["a", "b"])
    assert eligible_hash(["a"]) != eligible_hash(["a", "b"])
    assert eligible_hash(["ab", "c"]) != eligible_hash(["a", "bc"])


@pytest.mark.parametrize("others", [(8, 4), (4, 3)], ids=["other replicas", "other nodes"])
def test_costs_of_another_number_of_replicas_or_domains_are_no_progress(others: tuple[int, int]) -> None:
    """Nine replicas on one of four nodes are the pending attempt. Afterwards the cost is lower only because of the other numbers."""
    replicas, nodes = others
    before, after = measure_skew([on_one_node(9, 4)]), measure_skew([on_one_node(replicas, nodes)])
    pending = replace(outcome("pending"), basis=before.basis, lowest_cost=before.cost)
    assert after.cost < before.cost and not pending.is_progress(after)
    assert pending.is_progress(before._replace(cost=(0,)))


def test_attempts_on_another_basis_are_measured_from_their_own_beginning() -> None:
    """An autoscaled workload that never becomes even is moved each day with another number of replicas, and each run helps."""
    stored = None
    for day, replicas in enumerate((20, 22, 21, 24, 20)):
        found = measure_skew([on_one_node(replicas, 4)])
        now_s = T0 + day * 86400
        permission = cooldown_permission(stored, now_s=now_s, revision="r1", eligible="e1", skew=found, cooldown_s=600, max_attempts=3)
        assert permission.violation is None and permission.attempts == 1
        attempt = make_outcome(now_s=now_s, attempts=1, outcome="pending", revision="r1", eligible="e1", lowest=permission.lowest)
        assert attempt.is_progress(found._replace(cost=(found.cost[0] - 1,)))
        stored = replace(attempt, outcome="improved", attempts=0)


def on_one_node(replicas: int, nodes: int) -> Distribution:
    names = tuple(f"n{number}" for number in range(nodes))
    return Distribution("kubernetes.io/hostname", names, {"n0": replicas}, 0, replicas, 0)
