# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Print the summary of the playbook site as it is. A task of debug would print it as JSON."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

PROGRAM = {
    **{name: {"type": "str", "required": True} for name in ("part", "where")},
    "only_logs": {"type": "bool", "default": False},
}
ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "programs": {"type": "list", "elements": "dict", "options": PROGRAM, "required": True},
    "changed": {"type": "dict", "required": True},
}
SITE = "ansible-playbook onprem.kube_scheduling.site -i INVENTORY"
PARTS = {
    "spread_cronjob": ("rebalancer", "site_spread_cronjob"),
    "critical_rescuer": ("rescuer", "site_critical_rescuer"),
    "extended_scheduler": ("scheduler", "site_scheduler"),
    "node_exporter": ("node_exporter", "site_node_exporter"),
}
"""The name of each program, and the variable that chooses it, by its tag."""


class ActionModule(ActionBase):
    """The action of site_summary. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Print the summary. The result has it, too."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        text = summary(**options, is_plan=self._task.check_mode)
        Display().display(text)
        return {**result, "changed": False, "msg": text}


def summary(cluster, programs, changed, *, is_plan):
    """Return what is installed in which cluster, what has changed, and what comes next.

    ``changed``: whether each program of this run has changed, or None if it is not known. ``is_plan``: in check mode.
    """
    words = {None: [], False: ["as it was"], True: ["would change" if is_plan else "changed"]}
    width = max(len(name) for name, _variable in PARTS.values())
    lines = [f"Cluster {cluster}".strip()]
    for program in programs:
        if program["part"] in changed:
            state = ", ".join(words[changed[program["part"]]] + ["only logs what it would do"] * program["only_logs"])
            lines.append(f"  {PARTS[program['part']][0]:<{width}}  {program['where']}{f': {state}' if state else ''}")
    others = [f"{name} ({variable})" for part, (name, variable) in PARTS.items() if part not in changed]
    lines += [f"  not in this run: {', '.join(others)}"] if others else []
    lines.append("Next:")
    if is_plan:
        return "\n".join([*lines, f"  {SITE}    # makes these changes"])
    if "spread_cronjob" in changed:
        lines.append("  kubectl annotate namespace NAME kube-scheduling.onprem/spread=allow    # lets a namespace take part")
        lines.append(f"  {SITE} --tags rebalance --check    # what would be moved now")
    if any(program["only_logs"] for program in programs if program["part"] in changed):
        lines.append("  read the logs of the programs for a week, and then set site_dry_run: false")
    if "extended_scheduler" in changed:
        lines.append("  set schedulerName in a pod template to a profile of the scheduler: docs/scheduler-profiles.md")
    return "\n".join([*lines, "  docs/install.md"])
