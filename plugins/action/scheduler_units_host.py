# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables and units of the role extended_scheduler to the module on the host, and bring the programs that it does not have."""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.extended_scheduler_units import (
    extender_archive,
    host_variables,
    kube_scheduler,
    kubeconfigs,
    units,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.host_files import ProgramAction
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables


class ActionModule(ProgramAction):
    """The action of scheduler_units_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module. A lost connection is an error of the task, so that the other hosts are restored."""
        result = super().run(tmp, task_vars)
        try:
            return self._run(result, task_vars)
        except AnsibleConnectionFailure:
            return {**result, "failed": True, "msg": f"{self._task.args['host']} cannot be reached"}

    def _run(self, result, task_vars):
        state, given = self._task.args["state"], RoleVariables("extended_scheduler", self._templar, task_vars)
        file, program, problems, missing, made, files = "", "", [], [], [], {}
        if given("state") == "present":
            texts, problems, missing = kubeconfigs(given)
            file, checksum, problem = kube_scheduler(given)
            program = f"kube-scheduler-{checksum[:12]}"
            problems += [problem] if problem else []
            made, files = units(given, texts, program, lambda unit: self._rendered(unit, task_vars))
        arguments = {**self._task.args, "variables": {**host_variables(given, program, state), "units": made}, "files": files}
        if state == "checked":
            found = self._checked(arguments, task_vars)
            return result | found | {"problems": problems + found["problems"], "missing": missing + found["missing"]}
        if state == "present":
            found = self._execute_module(module_args={**arguments, "state": "checked"}, task_vars=task_vars)
            if found.get("problems"):
                found.update(failed=True, msg="\n".join(found["problems"]))
            if found.get("failed") or not found["missing"]:
                return result | found
            if not self._task.check_mode:
                host = arguments["host"]
                archive = extender_archive(given, host, found["python"], found["machine"]) if "services" in found["needs"] else ""
                arguments["sources"] = self._brought({"program": file if "program" in found["needs"] else "", "services": archive})
        return result | self._execute_module(module_args=arguments, task_vars=task_vars)

    def _checked(self, arguments, task_vars):
        """Return what the host has. One that cannot be read is named together with the other problems."""
        host = arguments["host"]
        try:
            found = self._execute_module(module_args=arguments, task_vars=task_vars)
            problem = f" cannot be read ({found.get('msg')}): check that its connection can become root" if found.get("failed") else ""
        except AnsibleConnectionFailure:
            problem = (
                " cannot be reached: repair it, or remove it from extended_scheduler_hosts. If it does not return, set "
                "extended_scheduler_scheduler_user and extended_scheduler_user to new names, so that its kubeconfigs lose their rights"
            )
        return {"changed": False, "problems": [host + problem], "missing": [], "profiles": [], "hostname": ""} if problem else found

    def _rendered(self, unit, task_vars):
        variables = {**task_vars, "ansible_search_path": self._task.get_search_path(), "__extended_scheduler_unit": unit}
        lookup = self._shared_loader_obj.lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        (text,) = lookup.run(["unit.j2"], variables)
        return str(text)
