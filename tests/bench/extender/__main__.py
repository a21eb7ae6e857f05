# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench --part extender``: the speed and the memory of the extender, and pods bound per second, beside one in Go."""

from __future__ import annotations

import argparse
import sys

from tests.bench import page
from tests.bench.extender import binding_rate, memory, report, throughput

SIZES = (100, 500, 5_000)


def main() -> None:
    """Measure everything and write the part of the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.extender", description=__doc__)
    parser.add_argument("--names", type=int, help="measure this number of names only, and write no page")
    parser.add_argument("--rounds", type=int, default=throughput.ROUNDS, help="turns of each contender of the requests")
    options = parser.parse_args()
    if options.names:
        print(report.speed_table(options.names, throughput.measure(options.names, options.rounds)))
        return
    speed = {names: throughput.measure(names, options.rounds) for names in SIZES}
    footprint = memory.measure()
    print(footprint, file=sys.stderr, flush=True)
    section = report.section(speed, footprint, binding_rate.measure())
    print(section)
    page.write("extender", section)


if __name__ == "__main__":
    main()
