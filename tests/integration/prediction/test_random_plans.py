# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Plans of random clusters, end to end: check mode plans a pass on 5 to 10 uneven workloads, and then the pass is made.

PLAN_CASES sets the number of clusters (3; 300 under SOAK=1), PLAN_SEEDS the seeds in their place (`7` or `100-149`). PLAN_RESULTS is a file
of JSON lines with the result of each seed. Seeds that are in it are not run again, so that a run of many clusters can be continued. A
complete run under SOAK=1 writes the part about plans of docs/development/predictions.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.binaries import KUBERNETES_VERSION
from tests.integration.conftest import SUMMARY
from tests.integration.kubernetes_version import VERSION
from tests.integration.prediction import page
from tests.integration.prediction.case_world import CaseWorld
from tests.integration.prediction.plans import PlanResult, PlanTally, RecordingApi, compare_plan, disagreements, plan_cases
from tests.integration.prediction.random_case import RandomCase
from tests.integration.prediction.results import KeptResults, results_file, seeds_of

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("PLAN_CASES", "300" if SOAK else "3"))
MIN_AGREEMENT = 0.98
MAX_CONDITIONAL = 0.1
MANY = 20
"""A share of the actions of fewer clusters says little."""

pytestmark = pytest.mark.timeout(0)


def _cases() -> Iterator[RandomCase]:
    seeds = seeds_of(os.environ.get("PLAN_SEEDS", ""))
    if not seeds:
        return islice(plan_cases(), CASES)
    return (case for case in takewhile(lambda case: case.seed < seeds.stop, plan_cases()) if case.seed in seeds)


def test_the_run_does_what_the_plan_says(world: CaseWorld, record_property: Callable[[str, object], None]) -> None:
    """Plan and run agree in 98 % of the actions and of the messages of many clusters, and in all but one of a few clusters."""
    api = RecordingApi(open_transport(user_agent="plan", kubeconfig=str(world.kubeconfig)))
    kept = KeptResults(PlanResult, Path(os.environ.get("PLAN_RESULTS") or results_file("plan-", is_soak=SOAK)))
    seeds = []
    for case in _cases():
        seeds.append(case.seed)
        if case.seed in kept:
            continue
        result = compare_plan(case, world, api)
        kept.add(result)
        print(f"seed {case.seed}: {PlanTally([result])}", *disagreements([result]), sep="\n", flush=True)
    results = kept.of(seeds)
    tally, wrong = PlanTally(results), list(disagreements(results))
    text = "\n".join([str(tally), *wrong])
    if SOAK and VERSION == KUBERNETES_VERSION and len(results) == CASES:
        page.write_plans(results)
    if len(results) < MANY:
        assert len(wrong) <= 1, text
    else:
        assert min(tally.agreement, tally.equal_text_share) >= MIN_AGREEMENT and tally.conditional_share <= MAX_CONDITIONAL, text
    record_property(SUMMARY, text)
