# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables of the role node_exporter to the module on the host, and check the archive on the controller."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.node_exporter_role import (
    architecture_of,
    archive_problems,
    find_archive,
    passwords,
    wanted_variables,
)


class ActionModule(ActionBase):
    """The action of node_exporter_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result = super().run(tmp, task_vars)
        variables = wanted_variables(self._templar, task_vars)
        archive = find_archive(self._templar, task_vars, variables)
        arguments = {
            **self._task.args,
            "variables": {**variables, "archive_sum": archive["sum"]},
            "basic_auth_users": passwords(self._templar, task_vars),
        }
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if self._task.args["state"] == "checked" and not result.get("failed"):
            result["archive"] = archive
            if variables["method"] == "archive" and variables["state"] == "present":
                result["problems"] += archive_problems(archive, variables["host"], architecture_of(variables))
        problems = result.get("problems")
        return result | {"failed": True, "msg": "\n".join(problems)} if problems else result
