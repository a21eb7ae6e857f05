# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pauses of every back-off, by the number of failures in a row."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache import reflector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import retry
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.backoff import Backoff
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common import config_map_store
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import task
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart import eviction_wait
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state import rescue_attempts


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        pytest.param(retry.BACKOFF, [0.5, 1, 2, 4, 8, 10, 10], id="repeated requests"),
        pytest.param(reflector.BACKOFF, [1, 2, 4, 5, 5], id="watches that fail"),
        pytest.param(config_map_store.BACKOFF, [0.1, 0.2, 0.4, 0.8, 1, 1], id="conflicts in the ConfigMap"),
        pytest.param(task.BACKOFF, [0.5, 1, 2, 4, 8, 10, 10], id="refused evictions of a rescue"),
        pytest.param(eviction_wait.BACKOFF, [1, 2, 4, 8, 15, 15], id="evictions of a restart that must wait"),
        pytest.param(rescue_attempts.BACKOFF, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600], id="failed rescues of an owner"),
        pytest.param(Backoff(600, 600 * 2**10), [600 * 2**step for step in range(11)] + [600 * 2**10] * 2, id="restarts without effect"),
        pytest.param(Backoff(0, 0), [0, 0, 0], id="no cooldown"),
    ],
)
def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest(backoff: Backoff, pauses: list[float]) -> None:
    assert [backoff.pause_s(failures, share=lambda: 0.0) for failures in range(1, len(pauses) + 1)] == pauses


@pytest.mark.parametrize("failures", [0, -5])
def test_fewer_than_one_failure_counts_as_the_first(failures: int) -> None:
    assert Backoff(2, 10).pause_s(failures) == 2


@pytest.mark.parametrize("failures", [10_000, 10**9])
def test_number_of_failures_that_nobody_has_is_no_error_and_costs_nothing(failures: int) -> None:
    assert Backoff(0.5, 10).pause_s(failures) == 10
    assert Backoff(600, 600 * 2**10).pause_s(failures) == 600 * 2**10


@pytest.mark.parametrize(("jitter", "shortest"), [(0.0, 4.0), (0.5, 2.0), (1.0, 0.0)])
def test_jitter_is_the_share_of_the_pause_that_is_random(jitter: float, shortest: float) -> None:
    backoff = Backoff(4, 4, jitter)
    assert (backoff.pause_s(1, share=lambda: 0.0), backoff.pause_s(1, share=lambda: 1.0)) == (4.0, shortest)
    pauses = {backoff.pause_s(1) for _ in range(50)}
    assert all(shortest <= pause_s <= 4.0 for pause_s in pauses) and (len(pauses) > 1) == (jitter > 0)


def test_pauses_of_programs_that_fail_together_are_random() -> None:
    """Watches of many programs break at the same time, and writers of one ConfigMap meet each other."""
    assert (reflector.BACKOFF.jitter, config_map_store.BACKOFF.jitter) == (0.5, 1.0)
