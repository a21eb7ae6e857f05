# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random rescues with faults: no program ends with another error than those of requests, and no node stays held.

FAULT_CASES sets how many (64; 5,000 under SOAK=1), FAULT_SEED the first seed: the same seed gives the same run.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.unit.operations.rescue.random_rescues import RandomRescues

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("FAULT_CASES", "5000" if SOAK else "64"))
SEED = int(os.environ.get("FAULT_SEED", str(time.time_ns() % 10**9) if SOAK else "1"))

pytestmark = pytest.mark.never_repeated


def test_rescues_with_faults_write_only_with_the_lease_and_release_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEED, SEED + CASES):
        with monkeypatch.context() as patch:
            rescues = RandomRescues(seed, patch)
            try:
                rescues.play()
            except Exception as error:
                error.add_note(f"FAULT_SEED={seed} FAULT_CASES=1 repeats this run")
                raise
