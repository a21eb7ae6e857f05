# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Find and decrypt the kubeconfig on the controller, as kubernetes.core does for its own modules, and read the version of that."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule as KubeconfigAction


class ActionModule(KubeconfigAction):
    """The action of k8s_cluster_identity."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module with the version."""
        return super().run(tmp, task_vars) | {"kubernetes_core": _version_of("ansible_collections.kubernetes.core")}


def _version_of(collection):
    """Return the version of a collection. It is empty if the collection was not installed from an archive."""
    spec = importlib.util.find_spec(collection)
    manifests = [Path(folder, "MANIFEST.json") for folder in spec.submodule_search_locations]
    return next((json.loads(file.read_text())["collection_info"]["version"] for file in manifests if file.exists()), "")
