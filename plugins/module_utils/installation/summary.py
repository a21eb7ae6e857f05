# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a run of the playbook site: what is installed in which cluster, what has changed, and what comes next."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

ANNOTATE = "kubectl annotate namespace NAME kube-scheduling.onprem/spread=allow"
SITE = "ansible-playbook onprem.kube_scheduling.site -i INVENTORY"
GUIDE = "docs/install.md"


PARTS = {
    "spread_cronjob": ("rebalancer", "site_spread_cronjob"),
    "critical_rescuer": ("rescuer", "site_critical_rescuer"),
    "extended_scheduler": ("scheduler", "site_scheduler"),
    "node_exporter": ("node_exporter", "site_node_exporter"),
}
"""The name of each program, and the variable that chooses it, by its tag."""


class Program(t.NamedTuple):
    """A program of an installation.

    ``where``: its object or its hosts. ``only_logs``: it only says what it would do.
    """

    where: str
    only_logs: bool = False


def summary(cluster: str, programs: Mapping[str, Program], changed: Mapping[str, t.Optional[bool]], *, is_plan: bool) -> str:
    """Return the lines of the summary.

    ``changed``: whether each program of this run has changed, or None if it is not known. ``is_plan``: in check mode.
    """
    width = max(len(name) for name, _variable in PARTS.values())
    lines = [f"Cluster {cluster}" if cluster else "Cluster"]
    for part, program in programs.items():
        if part in changed:
            words = {None: [], False: ["as it was"], True: ["would change" if is_plan else "changed"]}[changed[part]]
            state = ", ".join([*words, *(["only logs what it would do"] if program.only_logs else [])])
            lines.append(f"  {PARTS[part][0]:<{width}}  {program.where}{f': {state}' if state else ''}")
    others = [f"{name} ({variable})" for part, (name, variable) in PARTS.items() if part not in changed]
    lines += [f"  not in this run: {', '.join(others)}"] if others else []
    return "\n".join([*lines, "Next:", *(f"  {line}" for line in _next_steps(programs, changed.keys(), is_plan=is_plan))])


def _next_steps(programs: Mapping[str, Program], installed: Collection[str], *, is_plan: bool) -> list[str]:
    if is_plan:
        return [f"{SITE}    # makes these changes"]
    steps = []
    if "spread_cronjob" in installed:
        steps += [f"{ANNOTATE}    # lets a namespace take part", f"{SITE} --tags rebalance --check    # what would be moved now"]
    if any(programs[part].only_logs for part in installed):
        steps.append("read the logs of the programs for a week, and then set site_dry_run: false")
    if "extended_scheduler" in installed:
        steps.append("set schedulerName in a pod template to a profile of the scheduler: docs/scheduler-profiles.md")
    return [*steps, GUIDE]
