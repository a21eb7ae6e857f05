# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Find and decrypt the kubeconfig on the controller, as kubernetes.core does for its own modules."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule

__all__ = ["ActionModule"]
