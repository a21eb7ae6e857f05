# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Mistakes in the variables of rebalance.yml are found, and what is right is not taken for one."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.filter.wrong_variables import find_wrong_variables
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.variables import PLAYBOOKS, REBALANCE, wrong_variables


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_skeew", 1, "rebalance_max_skeew: there is no such variable; perhaps rebalance_max_skew was meant"),
        ("xyzzy", 1, "rebalance_xyzzy: there is no such variable"),
        ("max_skew", 0, "rebalance_max_skew: 0 is too small; it must be at least 1"),
        ("max_skew", "-1", "rebalance_max_skew: -1 is too small; it must be at least 1"),
        ("max_skew", "one", "rebalance_max_skew: 'one' is not a whole number; it must be at least 1"),
        ("cooldown", -1, "rebalance_cooldown: -1 is too small; it must be at least 0"),
        ("cooldown", "", "rebalance_cooldown: '' is not a whole number; it must be at least 0"),
        ("cooldown", True, "rebalance_cooldown: 'True' is not a whole number; it must be at least 0"),
        ("max_parallel", 0, "rebalance_max_parallel: 0 is too small; it must be at least 1"),
        ("max_attempts", 0, "rebalance_max_attempts: 0 is too small; it must be at least 1"),
        ("wait_timeout", 1.5, "rebalance_wait_timeout: '1.5' is not a whole number; it must be at least 1"),
        ("min_ready_nodes", None, "rebalance_min_ready_nodes: '' is not a whole number; it must be at least 1"),
        ("map_width", 59, "rebalance_map_width: 59 is too small; it must be at least 60"),
        ("plan_only", "flase", "rebalance_plan_only: 'flase' is neither true nor false"),
        ("plan_only", "", "rebalance_plan_only: '' is neither true nor false"),
        ("include_healthy", 2, "rebalance_include_healthy: 2 is neither true nor false"),
        ("strategy", "evict", "rebalance_strategy: 'evict' is none of rollout, evict_surplus, auto"),
        ("map_path", "nowhere/map.txt", "rebalance_map_path: there is no folder FOLDER/nowhere; create it first"),
        ("report_path", ".", "rebalance_report_path: . is a folder; name a file in it"),
    ],
)
def test_a_mistake_is_named(name: str, value: t.Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_wrong_variables({f"rebalance_{name}": value})[0] == said.replace("FOLDER", str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "may not be written" in find_wrong_variables({"rebalance_map_path": str(tmp_path / "map.txt")})[0]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    mistakes = find_wrong_variables({"rebalance_nodes": 1, "rebalance_zones": 2})
    assert len(mistakes) == 3 and mistakes[-1].endswith(", ".join(REBALANCE.names))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_skew", ""),
        ("max_skew", None),
        ("max_skew", "2"),
        ("cooldown", 0),
        ("map_width", 60),
        ("plan_only", True),
        ("plan_only", "False"),
        ("plan_only", "yes"),
        ("include_healthy", 0),
        ("report_path", ""),
        ("map_path", "map.txt"),
        ("hosts", "clusters"),
    ],
)
def test_what_is_right_passes(name: str, value: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_wrong_variables({f"rebalance_{name}": value}) == []


def test_the_least_grace_period_depends_on_force() -> None:
    (said,) = wrong_variables({"rescue_grace_period": -1}, PLAYBOOKS["rescue"])
    assert said == "rescue_grace_period: -1 is too small; it must be at least 1, or 0 with rescue_force"
