# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of an installation on a kind cluster with three nodes, one after the other, outside the clone."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lab import base_image
from lab.kind import engine, node_image
from lab.kind.cluster import KindCluster
from tests.bench import page
from tests.bench.measure import COLLECTIONS
from tools.paths import ROOT

NAME = "bench-site"
INVENTORY = ROOT / "extensions" / "molecule" / "kind" / "inventory"
MAX_CPU_S, MAX_HEADERS = 25, 60


class Run(NamedTuple):
    """A run of a playbook to measure, and the most seconds that it may take."""

    playbook: str
    arguments: tuple[str, ...]
    most_s: int


RUNS = {
    "site, check mode": Run("site", ("--check", "--diff"), 40),
    "site, first run": Run("site", (), 75),
    "site, second run": Run("site", (), 40),
    "verify": Run("verify", (), 12),
    "uninstall": Run("uninstall", (), 45),
}


class Figures(NamedTuple):
    """The time of a run, and the amount of its output."""

    wall_s: float
    cpu_s: float
    headers: int
    skipped: int
    lines: int


def main() -> None:
    """Measure, print, and write the part of the page. The cluster is gone afterwards."""
    started = engine.ensure(print)
    folder = ROOT / ".lab" / "kind" / NAME
    cluster = KindCluster.at(folder, NAME)
    try:
        cluster.up(print, image=node_image.ensure(print))
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_NOCOLOR": "1",
            "KUBE_SCHEDULING_IMAGE_BASE": base_image.ensure(print),
            "KUBE_SCHEDULING_IMAGE_PYTHON": base_image.PYTHON,
            "KUBE_SCHEDULING_KIND_NAME": NAME,
            "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
        }
        played(Run("site", ("--tags", "service_image"), 0), environment)
        section = text({name: played(run, environment) for name, run in RUNS.items()})
    finally:
        cluster.down(print)
        if started:
            engine.stop(print)
    print(section)
    page.write("site", section)


def played(run: Run, environment: Mapping[str, str]) -> Figures:
    """Run a playbook with Ansible's default callback in an empty folder, and return its figures."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), f"onprem.kube_scheduling.{run.playbook}"]
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [*command, "--inventory", str(INVENTORY), *run.arguments],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        wall_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{run.playbook} failed:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    counted = (len(re.findall(pattern, done.stdout, re.MULTILINE)) for pattern in (r"^TASK \[", r"^skipping: ", r"^"))
    return Figures(wall_s, cpu_s, *counted)


def text(figures: Mapping[str, Figures]) -> str:
    """Return the section of the page."""
    rows = [
        [name, page.goal(one.wall_s, RUNS[name].most_s, "s"), page.goal(one.cpu_s, MAX_CPU_S, "s"), *map(str, one[2:])]
        for name, one in figures.items()
    ]
    return f"""## An installation

The playbooks on a kind cluster with three nodes, which have the image already. CPU is that of the controller. The goal
for the first run of `site` is {MAX_HEADERS} task headers.

{page.machine()}

{page.table(["run", "time", "cpu", "task headers", "skipped lines", "lines"], rows)}
"""


if __name__ == "__main__":
    main()
