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
        """Give the rendered templates to the module as its option objects. They have the variable apply_set in addition to the others."""
        args = self._task.args
        templates = args.pop("templates", None) or []
        if not isinstance(templates, list):
            raise AnsibleActionFail("templates: it is no list; give the names of the templates without .yml.j2")
        own = {option: str(args.get(option) or "") for option in ("name", "component", "namespace", "user")}
        own |= {"labels": set_labels(own["name"], own["component"]), "selector": pod_selector(own["name"], own["component"])}
        variables = {**(task_vars or {}), "ansible_search_path": self._task.get_search_path(), "apply_set": own}
        lookup = self._shared_loader_obj.lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        objects = dict(args.get("objects") or {})
        for name in templates:
            (text,) = lookup.run([f"{name}.yml.j2"], variables)
            objects[name] = [item for item in yaml.safe_load_all(text) if item]
        args["objects"] = objects
        return super().run(tmp, task_vars)
