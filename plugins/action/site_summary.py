# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Print the summary of the playbook site as it is. A task of debug would print it as JSON."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.summary import Program, summary

PROGRAM = {
    **{name: {"type": "str", "required": True} for name in ("part", "where")},
    "only_logs": {"type": "bool", "default": False},
}
ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "programs": {"type": "list", "elements": "dict", "options": PROGRAM, "required": True},
    "changed": {"type": "dict", "required": True},
}


class ActionModule(ActionBase):
    """The action of site_summary. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Print the summary. The result has it, too."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        programs = {entry.pop("part"): Program(**entry) for entry in options["programs"]}
        text = summary(options["cluster"], programs, options["changed"], is_plan=self._task.check_mode)
        Display().display(text)
        return {**result, "changed": False, "msg": text}
