# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.soak.placement``: the quality of placements, beside the stock scheduler and the formulas of others."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Mapping

from tests.soak.placement import contenders, own_extender, report
from tests.soak.placement.contenders import Make
from tests.soak.placement.query_server import QueryServer
from tests.soak.placement.simulation import Outcome, run
from tests.soak.placement.workload import PATTERNS, draw

SEEDS = 60
OTHERS = (
    contenders.StockScheduler,
    contenders.OriginalPlugin,
    contenders.OriginalExtender,
    contenders.OriginalFormula,
    contenders.RiskBalancingExtender,
    contenders.RiskBalancing,
    contenders.TargetLoadPacking,
)
REFERENCE = contenders.ExactKnowledge


def main() -> None:
    """Simulate everything, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.placement", description=__doc__)
    parser.add_argument("--seeds", type=int, help="simulate this number of seeds, at least 2, and write no page")
    options = parser.parse_args()
    server = QueryServer()
    try:
        results = measure(makers(server), options.seeds or SEEDS)
    finally:
        server.stop()
    text = report.page(results)
    print(text)
    if options.seeds is None:
        report.PAGE.write_text(text, encoding="utf-8")


def makers(server: QueryServer) -> dict[str, Make]:
    """Return the contenders by their names."""
    own: dict[str, Make] = {kind.name: functools.partial(kind, server=server) for kind in own_extender.OWN}
    return {**{kind.name: kind for kind in OTHERS}, **own, REFERENCE.name: REFERENCE}


def measure(by_name: Mapping[str, Make], seeds: int) -> dict[str, dict[str, list[Outcome]]]:
    """Return the outcomes by pattern and contender, in the order of the seeds."""
    results: dict[str, dict[str, list[Outcome]]] = {}
    for pattern in PATTERNS:
        began_at_s = time.monotonic()
        found = results[pattern] = {name: [] for name in by_name}
        for seed in range(seeds):
            scenario = draw(pattern, seed)
            for name, make in by_name.items():
                found[name].append(run(scenario, make, seed))
        print(f"{pattern}: {seeds} seeds in {time.monotonic() - began_at_s:.0f} s", flush=True)
    return results


if __name__ == "__main__":
    main()
