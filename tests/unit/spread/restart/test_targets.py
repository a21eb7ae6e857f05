# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The option ``check``: the result of k8s_spread_check gives the targets, the topology keys and max_skew."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import restart_options
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import CheckedResult, Target, read_check

from tests.unit.support.cluster import workers

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
UNSET: dict[str, t.Any] = {
    "strategy": "rollout", "allow_downtime": False, "max_attempts": 3, "max_parallel": 1, "wait": True, "verify_spread": True,
    "wait_timeout": "600", "wait_sleep": "5", "spread_constraint": "keep", "force_managed": False,
}  # fmt: skip


def result(**options: t.Any) -> dict[str, t.Any]:
    """A result of the check, as Ansible hands it over: a collapsed workload, and one that a restart does not help."""
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    cluster.deployment("big", ["worker-1"] * 2, template={"spec": {"nodeSelector": {"no": "node"}}})
    judged = CheckOptions(**options)
    plain = check_result(check_spread(cluster.snapshot(), judged), judged, include_healthy=False)
    registered: dict[str, t.Any] = json.loads(json.dumps({**plain, "changed": False, "failed": False}))
    return registered


WEB = Target("Deployment", "app", "web")
OLD = Target("StatefulSet", "app", "old")


def checked(**more: t.Any) -> CheckedResult:
    parts: dict[str, t.Any] = {
        "restartable": (WEB,), "uneven": (WEB, Target("Deployment", "app", "big")), "interrupted": (WEB, OLD),
        "topology_keys": (ZONE, HOST), "max_skew": 2, "predicted": True,
    }  # fmt: skip
    return CheckedResult(**{**parts, **more})


def test_result_of_the_check_is_read_with_its_targets_and_options() -> None:
    found = read_check(result(max_skew=1))
    assert found.restartable == (WEB,) and WEB in found.uneven
    assert (found.topology_keys, found.max_skew, found.predicted, found.interrupted) == ((HOST,), 1, True, ())


def test_rollout_takes_what_is_restartable_and_the_other_strategies_take_what_is_uneven() -> None:
    assert checked().targets(restartable=True, only_if_helps=False) == [WEB]
    assert checked().targets(restartable=False, only_if_helps=False) == [WEB, Target("Deployment", "app", "big")]


@pytest.mark.parametrize(
    ("strategy", "constraint", "taken"),
    [("rollout", "keep", "restartable"), ("rollout", "add", "uneven"), ("auto", "keep", "uneven"), ("auto", "add", "uneven")],
)
def test_rollout_with_constraints_takes_what_is_uneven_because_the_check_has_predicted_without_them(
    strategy: str, constraint: str, taken: str
) -> None:
    params = {**UNSET, "strategy": strategy, "spread_constraint": constraint, "only_if_helps": False}
    assert restart_options(params, checked(), dry_run=False).targets(checked()) == list(getattr(checked(), taken))


def test_constraints_are_an_error_with_a_strategy_that_does_not_change_the_template() -> None:
    with pytest.raises(OptionError, match=r"^spread_constraint: evict_surplus does not change"):
        restart_options({**UNSET, "strategy": "evict_surplus", "spread_constraint": "add"}, dry_run=False)


def test_interrupted_workloads_are_included_once_unless_they_would_be_restarted_without_a_benefit() -> None:
    assert checked().targets(restartable=True, only_if_helps=True) == [WEB, OLD]


def test_check_without_predictions_is_refused_for_a_rollout_only() -> None:
    blind = checked(predicted=read_check(result(predict=False)).predicted)
    with pytest.raises(OptionError, match="predict: false"):
        blind.targets(restartable=True, only_if_helps=True)
    assert blind.targets(restartable=False, only_if_helps=False)


def test_topology_keys_and_max_skew_are_those_of_the_check_unless_they_are_given() -> None:
    options = restart_options(UNSET, checked(), dry_run=False)
    assert (options.topology_keys, options.max_skew) == ((ZONE, HOST), 2)
    given = restart_options({**UNSET, "topology_keys": [HOST], "max_skew": 3}, checked(), dry_run=False)
    assert (given.topology_keys, given.max_skew) == ((HOST,), 3)
    without = restart_options(UNSET, dry_run=False)
    assert (without.topology_keys, without.max_skew) == ((HOST,), None)


@pytest.mark.parametrize(("params", "cooldown_s"), [({}, 600), ({"name": "web"}, 0), ({"name": "web", "cooldown": "90"}, 90)])
def test_cooldown_is_zero_for_a_named_workload_unless_it_is_given(params: dict[str, t.Any], cooldown_s: int) -> None:
    assert restart_options({**UNSET, **params}, dry_run=False).cooldown_s == cooldown_s


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), (30, 30), ("30s", 30), ("5m", 300), ("1h30m", 5400)])
@pytest.mark.parametrize("name", ["cooldown", "wait_timeout", "wait_sleep"])
def test_times_may_be_written_with_a_unit(name: str, text: t.Any, seconds: int) -> None:
    assert getattr(restart_options({**UNSET, name: text}, dry_run=False), f"{name}_s") == seconds


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cooldown", "-1", "cooldown is -1: it must be at least 0"),
        ("cooldown", "ten", "cooldown: 'ten' is not a duration"),
        ("cooldown", "0.5s", "cooldown: '0.5s' is not a whole number"),
        ("wait_timeout", "0s", "wait_timeout is 0: it must be at least 1"),
        ("wait_sleep", "0", "wait_sleep is 0: it must be at least 1"),
        ("wait_timeout", "9999999h", "wait_timeout is 9999999h: the maximum is a year"),
        ("cooldown", "9" * 400, "cooldown is 9999"),
    ],
)
def test_invalid_times_are_refused_by_name(name: str, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        restart_options({**UNSET, name: text}, dry_run=False)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("spread", "not the text 'spread'"),
        ([], "not a list"),
        (3, "not a int"),
        ({}, "the key restartable is missing"),
        ({"skipped": True, "changed": False}, "was skipped"),
        ({"failed": True, "msg": "cannot list nodes"}, "failed: cannot list nodes"),
        ({**result(), "failed": True, "msg": "unreadable"}, "failed: unreadable"),
        ({"results": [result()], "changed": False}, "a loop is a list"),
        ({"results": [], "skipped": True}, "a loop is a list"),
        ({"changed": True, "workloads": [{"action": "restarted"}]}, "the key restartable is missing"),
        ({**result(), "options": None}, "its options are not valid"),
        ({**result(), "options": {}}, "its options.topology_keys is not a list"),
        ({**result(), "options": {"topology_keys": [HOST], "max_skew": "1"}}, "its options.max_skew is '1'"),
        ({**result(), "options": {"topology_keys": [HOST], "max_skew": 0}}, "its options.max_skew is 0"),
        ({**result(), "options": {"topology_keys": [HOST, None]}}, "its options.topology_keys has None"),
        ({**result(), "options": {"topology_keys": [HOST], "predict": "false"}}, "its options.predict is 'false'"),
        ({**result(), "restartable": "Deployment"}, "its restartable is not a list"),
        ({**result(), "uneven": [{"kind": "DaemonSet", "namespace": "a", "name": "b"}]}, "its uneven has the entry"),
        ({**result(), "uneven": [{"kind": "Deployment", "namespace": "a"}]}, "its uneven has the entry"),
        ({**result(), "interrupted": ["web"]}, "its interrupted has the entry 'web'"),
    ],
)
def test_anything_but_a_result_of_the_check_is_refused_with_the_cause(value: t.Any, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_check(value)
    assert str(caught.value).startswith("check: ") and said in str(caught.value)
