# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Name a host that cannot be reached, and choose the module for the extenders.

Ansible ends a run at a lost connection, without ``rescue``. Here it is an error of the task like others.
"""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.filter.failure_text import failure_text

AGAIN = "run the playbook again as soon as it can be reached, which continues"
REPAIR = ": repair it, or if it does not return, remove its Node and remove it from the inventory"
LOST = {"read": REPAIR, "checked": REPAIR, "extender": f", so its extenders are not changed: {AGAIN}"}
OTHERWISE = f", so its earlier manifest is not restored: {AGAIN}"


class ActionModule(ActionBase):
    """The action of kubeadm_scheduler_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module. The other hosts are read and checked in spite of a failure."""
        result = super().run(tmp, task_vars)
        given = self._task.args
        host, state = given["host"], given["state"]
        module, arguments = ("onprem.kube_scheduling.static_pod_host", given["extender"]) if state == "extender" else (None, None)
        try:
            found = self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)
            problem = f"{host}: {failure_text(found)}"
        except AnsibleConnectionFailure:
            problem = f"{host} cannot be reached{LOST.get(state, OTHERWISE)}"
            found = {"failed": True, "msg": f"{given.get('reason') or ''} {problem}".strip()}
        if found.get("failed") and state in ("read", "checked"):
            found = {"changed": False, "problems": [problem]}
        return result | found
