# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Render the templates of the role on the controller, and find and decrypt the kubeconfig, as kubernetes.core does for its own modules."""

from __future__ import annotations

import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.objects import pod_selector, set_labels
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule as KubeconfigAction


class ActionModule(KubeconfigAction):
    """The action of k8s_apply_set."""

    def run(self, tmp=None, task_vars=None):
        """Give the rendered templates to the module as its option objects."""
        templates = self._task.args.pop("templates", None) or []
        if not isinstance(templates, list):
            raise AnsibleActionFail("templates: it is no list; give the names of the templates without .yml.j2")
        rendered = {str(name): self._rendered(str(name), task_vars or {}) for name in templates}
        if rendered:
            self._task.args["objects"] = {**(self._task.args.get("objects") or {}), **rendered}
        return super().run(tmp, task_vars)

    def _rendered(self, name, task_vars):
        """Return the objects of a template of the role. It has the variable apply_set in addition to those of the task."""
        set_name, component, namespace = (str(self._task.args.get(option) or "") for option in ("name", "component", "namespace"))
        labels = {"labels": set_labels(set_name, component), "selector": pod_selector(set_name, component)}
        own = {"name": set_name, "namespace": namespace, "user": str(self._task.args.get("user") or ""), **labels}
        variables = {**task_vars, "ansible_search_path": self._task.get_search_path(), "apply_set": own}
        lookup = self._shared_loader_obj.lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        (text,) = lookup.run([f"{name}.yml.j2"], variables)
        return [item for item in yaml.safe_load_all(text) if item]
