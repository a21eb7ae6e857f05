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


class ActionModule(ActionBase):
    """The action of kubeadm_scheduler_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result = super().run(tmp, task_vars)
        given = self._task.args
        host, state, extender = given["host"], given["state"], given["extender"] if given["state"] == "extender" else None
        module = "onprem.kube_scheduling.static_pod_host" if extender else None
        try:
            result.update(self._execute_module(module_name=module, module_args=extender, task_vars=task_vars))
        except AnsibleConnectionFailure:
            result.update(failed=True, msg=f"{host} cannot be reached", unreached=True)
        if extender and "unreached" in result:
            result["msg"] += f", so its extenders are not changed: {AGAIN}"
        elif result.get("failed") and not extender:
            return _failure(result, host, state, given.get("reason"))
        return result


def _failure(result, host, state, reason):
    """Return the result of a failure. The other hosts are read and checked in spite of it."""
    remedy = "repair it, or if it does not return, remove its Node and remove it from the inventory"
    if state in ("read", "checked"):
        text = failure_text(result)
        return {"changed": False, "problems": [f"{text}: {remedy}" if "unreached" in result else f"{host}: {text}"]}
    if "unreached" in result:
        result["msg"] = f"{f'{reason} ' if reason else ''}{host} cannot be reached, so its earlier manifest is not restored: {AGAIN}"
    return result
