# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench --part extender``: the speed and the memory of the extender, beside one in Go.

``--part extender-binding``: pods bound per second.
"""

from __future__ import annotations

import argparse
import sys

from tests.bench import page
from tests.bench.extender import binding_rate, binding_report, memory, report, throughput

SIZES = (100, 500, 5_000)


def main() -> None:
    """Measure a part of the page and write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.extender", description=__doc__)
    parser.add_argument("--names", type=int, help="measure this number of names only, and write no page")
    parser.add_argument("--rounds", type=int, default=throughput.ROUNDS, help="turns of each contender of the requests")
    parser.add_argument("--bindings", action="store_true", help="measure the pods bound per second, which is a part of its own")
    options = parser.parse_args()
    if options.bindings:
        _write("extender-binding", binding_report.section(binding_rate.measure()))
        return
    if options.names:
        print(report.speed_table(options.names, throughput.measure(options.names, options.rounds)))
        return
    speed = {names: throughput.measure(names, options.rounds) for names in SIZES}
    footprint = memory.measure()
    print(footprint, file=sys.stderr, flush=True)
    _write("extender", report.section(speed, footprint))


def _write(part: str, section: str) -> None:
    print(section)
    page.write(part, section)


if __name__ == "__main__":
    main()
