# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Predictions of random clusters, end to end: each uneven workload is restarted, and the real scheduler places its new pods.

PREDICTION_CASES sets the number of clusters (5; 250 under SOAK=1). There is one with full nodes for each five of them, and two at least.
PREDICTION_SEEDS sets the seeds in their place (`7` or `100-149`; from 1001 on, nodes are full): the same seed gives the same cluster.
PREDICTION_RESULTS is a file of JSON lines with the result of each seed. Seeds that are in it are not run again, so that a run of many
clusters can be continued. A complete run under SOAK=1 writes docs/development/predictions.md. PREDICTION_LOG is a folder for the log of
each cluster's scheduler with all scores.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.binaries import KUBERNETES_VERSION
from tests.integration.conftest import SUMMARY
from tests.integration.kubernetes_version import VERSION
from tests.integration.prediction import page
from tests.integration.prediction.case_world import CaseWorld
from tests.integration.prediction.comparison import CaseResult, run_case
from tests.integration.prediction.random_clusters import random_cluster
from tests.integration.prediction.results import MORE, KeptResults, Tally, by_kind, problems, results_file, seeds_of, summary

SOAK = os.environ.get("SOAK") == "1"
IS_NEWEST = VERSION == KUBERNETES_VERSION
CASES = int(os.environ.get("PREDICTION_CASES", "250" if SOAK else "5"))
FULL_CASES = max(2, CASES // 5)
FIRST_SEED = 1
FIRST_FULL_SEED = 1001
"""The clusters from this seed on have full nodes."""
MIN_RIGHT = 0.99
"""The share of the predictions true, and of the predictions false, that must be right in a run of many clusters."""
MAX_UNKNOWN = 0.05
"""The share of uneven workloads for which there may be no prediction, in clusters in which the scheduler scores all nodes.

It is a share of all clusters that the generator can make. Those of a run may have two standard errors more by chance.
"""
MANY = 100
"""A share of the workloads of fewer clusters says little."""

pytestmark = pytest.mark.timeout(0)


def _seeds() -> list[int]:
    every = [*range(FIRST_SEED, FIRST_SEED + CASES), *range(FIRST_FULL_SEED, FIRST_FULL_SEED + FULL_CASES)]
    return list(seeds_of(os.environ.get("PREDICTION_SEEDS", "")) or every)


@pytest.fixture(scope="module")
def results(world: CaseWorld) -> list[CaseResult]:
    """The results of all clusters, which are run once for all tests."""
    api = KubeApi(open_transport(user_agent="prediction", kubeconfig=str(world.kubeconfig)))
    seeds = _seeds()
    kept = KeptResults(CaseResult, Path(os.environ.get("PREDICTION_RESULTS") or results_file("", is_soak=SOAK)))
    for seed in seeds:
        if seed in kept:
            continue
        case = run_case(random_cluster(seed, is_full=seed >= FIRST_FULL_SEED), world, api)
        kept.add(case)
        _keep_log(world, seed)
        print(f"seed {seed}: {Tally([case])}", *problems([case]), sep="\n", flush=True)
    return kept.of(seeds)


def test_predictions_are_right(results: list[CaseResult], record_property: Callable[[str, object], None]) -> None:
    """At most 1 % of the predictions of many clusters is wrong, and at most one of a few clusters."""
    if SOAK and IS_NEWEST and len(results) == CASES + FULL_CASES:
        page.write(results)
    text = summary(results)
    wrong = list(problems(results))
    if len(results) < MANY:
        assert len(wrong) <= 1, "\n".join([text, *wrong])
    else:
        every = Tally(results)
        assert min(every.right_true, every.right_false) >= MIN_RIGHT, "\n".join([text, *wrong])
        for kind, tally in by_kind(results).items():
            by_chance = 2 * math.sqrt(MAX_UNKNOWN * (1 - MAX_UNKNOWN) / max(1, tally.workloads))
            assert kind == MORE or tally.workloads < MANY or tally.unknown <= MAX_UNKNOWN + by_chance, text
    record_property(SUMMARY, "\n".join([text, *wrong]))


def _keep_log(world: CaseWorld, seed: int) -> None:
    folder = os.environ.get("PREDICTION_LOG")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(world.log_file, Path(folder) / f"seed-{seed}.log")
