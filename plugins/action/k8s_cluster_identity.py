# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Find and decrypt the kubeconfig on the controller, as kubernetes.core does for its own modules, and read the version of that."""

from __future__ import annotations

import json
import pkgutil

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule as KubeconfigAction


class ActionModule(KubeconfigAction):
    """The action of k8s_cluster_identity."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module with the version. It is empty if the collection was not installed from an archive."""
        result = super().run(tmp, task_vars)
        manifest = pkgutil.get_data("ansible_collections.kubernetes.core", "MANIFEST.json")
        return result | {"kubernetes_core": json.loads(manifest)["collection_info"]["version"] if manifest else ""}
