# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU time of a check on a small cluster, packed as Ansible packs it, beside a module that does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.cluster import Cluster, up
from tests.bench import page
from tests.bench.measure import Command, Figures, run_in_turn

CHECK = "onprem.kube_scheduling.k8s_spread_check"
NAME = "start"
RUNS = 25
MAX_CPU_S = 0.35
"""The most CPU time that the check may need in addition to that of the empty module."""

EMPTY = """\
from ansible.module_utils.basic import AnsibleModule

AnsibleModule(argument_spec={}).exit_json()
"""


def measured() -> str:
    """The section of the page, measured now on a small cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        cluster = Cluster.at(folder, NAME)
        try:
            up(folder, NAME, scenario="base")
            return section(_measure(cluster, Path(folder)))
        finally:
            cluster.down()


def _measure(cluster: Cluster, folder: Path) -> dict[str, Figures]:
    (folder / "library").mkdir()
    (folder / "library" / "empty.py").write_text(EMPTY)
    options = {"kubeconfig": str(cluster.kubeconfig)}
    modules = {"an empty module": _packed("empty", {}, folder), "k8s_spread_check": _packed(CHECK, options, folder)}
    commands = {name: Command([sys.executable, str(module)]) for name, module in modules.items()}
    return run_in_turn(commands, runs=RUNS, before_each=lambda: None)


def _packed(module: str, options: Mapping[str, str], folder: Path) -> Path:
    """The program that Ansible makes of the module and its options, and runs on a host."""
    remote = folder / module
    environment = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_REMOTE_TEMP": str(remote), "ANSIBLE_LIBRARY": str(folder / "library")}
    # Ansible takes an empty text of options for an argument of the module.
    arguments = ["-a", json.dumps(options)] if options else []
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-m", module, *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    (program,) = remote.glob("ansible-tmp-*/AnsiballZ_*.py")
    return program


def section(figures: Mapping[str, Figures]) -> str:
    """The figures as text."""
    empty, check = figures.values()
    rows = [
        [
            name,
            f"{found.cpu:.2f}",
            f"{found.least_cpu:.2f}",
            f"{found.least_cpu / empty.least_cpu:.2f}",
            f"{found.wall:.2f}",
            f"{found.memory:.0f}",
        ]
        for name, found in figures.items()
    ]
    more = page.goal(check.least_cpu - empty.least_cpu, MAX_CPU_S, "s", digits=2)
    return f"""## The start of a module

The programs that Ansible makes of `k8s_spread_check` and of a module that does nothing are run in turn, on a cluster with seven
nodes. Ansible packs the sources of a module, and Python compiles them again in each run. *Least* is the run with the least CPU time of
each program, because the speed of a shared machine changes.

{page.machine()}

{page.table([f"medians of {RUNS} runs in turn", "cpu s", "least cpu s", "× empty", "wall s", "peak MB"], rows)}

Goal: the check needs at most {MAX_CPU_S} s of CPU time more than an empty module. {more}.
"""
