# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Create the objects of the playbook awx with the modules of awx.awx, one after the other.

The objects are the variable ``__awx_objects``, and no option, because Ansible shows the options of a task, and credentials have secrets.
"""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain

MODULES = {
    "credential_types": "credential_type",
    "credentials": "credential",
    "execution_environments": "execution_environment",
    "projects": "project",
    "inventories": "inventory",
    "hosts": "host",
    "groups": "group",
    "notifications": "notification_template",
    "templates": "job_template",
    "workflows": "workflow_job_template",
    "schedules": "schedule",
}
"""The module of each variable of infra.aap_configuration, in the order in which the objects need one another."""

FOR_ROLES = {"related", "update_secrets", "simplified_workflow_nodes"}
"""The keys that only the roles of infra.aap_configuration read."""

LINKS = ("success_nodes", "always_nodes")
SECRETS = {"credential": "inputs", "notification_template": "notification_configuration"}


class ActionModule(ActionBase):
    """The action of awx_objects. It has no module of its own."""

    def run(self, tmp=None, task_vars=None):
        """Return the objects that were changed, or the first one that cannot be created."""
        result, changed = super().run(tmp, task_vars), []
        _validated, options = self.validate_argument_spec({"update_secrets": {"type": "bool", "default": False}})
        objects = plain(self._templar.template(task_vars["__awx_objects"]))
        for module, given in calls(objects, "present" if options["update_secrets"] else "exists"):
            self._task.no_log = module in SECRETS  # otherwise the module writes its options to the log of the controller
            try:
                answer = self._execute_module(module_name=f"awx.awx.{module}", module_args=given, task_vars=task_vars)
            finally:
                self._task.no_log = False
            name = f"{module} {given.get('name') or given['identifier']}"
            result.setdefault("warnings", []).extend(answer.get("warnings") or [])
            if answer.get("failed"):
                error = shown_error(answer, given.get(SECRETS.get(module)))
                return {**result, "failed": True, "changed": bool(changed), "msg": f"{name}: {error}"}
            if answer.get("changed") and name not in changed:
                changed.append(name)
        for name in changed:
            self._display.display(f"{'Would be changed' if self._task.check_mode else 'Changed'}: {name}")
        return {**result, "changed": bool(changed), "changed_objects": changed}


def calls(objects, secret_state):
    """Yield each module with its options. The objects with secrets have this state."""
    for kind, module in MODULES.items():
        for item in objects[f"controller_{kind}"]:
            given = {key: value for key, value in item.items() if key not in FOR_ROLES}
            if module == "inventory":
                given["kind"] = ""  # without it, the module sends null, and reports a change in each run
            if module in SECRETS:
                given["state"] = secret_state
            yield module, given
        if module == "workflow_job_template":
            # Its option workflow_nodes would report a change in each run, because of the approval.
            yield from workflow_nodes(objects["controller_workflows"])


def workflow_nodes(workflows):
    """Yield the module of each step of the workflows, and again with its links. A step can follow only one that exists."""
    steps = [(item, node) for item in workflows for node in item["simplified_workflow_nodes"]]
    without_links = [(item, {key: value for key, value in node.items() if key not in LINKS}) for item, node in steps]
    links = [(item, {"identifier": node["identifier"], **{key: node.get(key) or [] for key in LINKS}}) for item, node in steps]
    for item, own in without_links + links:
        yield "workflow_job_template_node", {**own, "workflow_job_template": item["name"], "organization": item["organization"]}


def shown_error(answer, secrets):
    """Return the error of a module. One that has six characters in a row of a word of the secrets is not shown."""
    error = str(answer.get("msg") or "unknown error")
    words = [word for text in texts_of(secrets or {}) for word in text.split()]
    if any(word[start : start + 6] in error for word in words if len(word) > 3 for start in range(max(1, len(word) - 5))):
        return "AWX refuses its values. The reason is not shown, because it has one of them: create the object in AWX to read it"
    return error


def texts_of(value):
    """Return the texts in a value."""
    if isinstance(value, (dict, list)):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in texts_of(one)]
    return [str(value)]
