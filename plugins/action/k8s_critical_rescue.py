# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds and decrypts the kubeconfig on the controller, as kubernetes.core does for its own modules.

A redirect in meta/runtime.yml would do the same, but it makes all modules one action for module_defaults, so that the defaults of
one module would reach the other.
"""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule

__all__ = ["ActionModule"]
