# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables of the role node_exporter to the module on the host, and bring the program of the archive there."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.host_files import ProgramAction
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.node_exporter_role import (
    archive_problem,
    find_archive,
    passwords,
    wanted_variables,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables


class ActionModule(ProgramAction):
    """The action of node_exporter_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result, state = super().run(tmp, task_vars), self._task.args["state"]
        given = RoleVariables("node_exporter", self._templar, task_vars)
        variables = wanted_variables(given, self._templar.template(task_vars.get("ip")), task_vars)
        archive = find_archive(given, variables)
        has_archive = variables["method"] == "archive" and variables["state"] == "present"
        program = ""
        if has_archive and state == "present" and not self._task.check_mode and not task_vars["__node_exporter_checked"]["is_installed"]:
            problem = archive.take()
            if problem:
                return result | {"failed": True, "msg": problem}
            program = self._brought({"node_exporter": archive.program})["node_exporter"]
        arguments = {
            **self._task.args,
            "variables": {**variables, "archive_sum": archive.sum, "new_program": program},
            "basic_auth_users": passwords(given),
        }
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if state == "checked" and has_archive and not result.get("failed"):
            result["problems"].append(archive_problem(archive, variables))
        problems = [problem for problem in result.get("problems") or () if problem]
        return result | {"failed": True, "msg": "\n".join(problems)} if problems else result
