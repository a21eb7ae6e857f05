# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubelet features that a pod needs (kubernetes ``plugins/nodedeclaredfeatures``, component-helpers ``nodedeclaredfeatures/features``)."""

from __future__ import annotations

import typing as t

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons

UNDECLARED: Reasons = (Reason("node_declared_features", "node(s) didn't match Pod's required features"),)
RESTART_ALL = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USER_NAMESPACES = "UserNamespacesHostNetworkSupport"


def pre_filter(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes whose kubelet does not declare a feature that the pod's spec needs.

    Return None if the pod needs no feature.
    """
    needed = required_features(pod)
    if not needed:
        return None
    return lambda node: PASSED if needed.issubset(node.status.declared_features or ()) else UNDECLARED


def required_features(pod: Pod) -> frozenset[str]:
    """Return the features that kube-scheduler 1.36 requires for the pod."""
    needed = set()
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.add(HOST_NETWORK_USER_NAMESPACES)
    for container in pod.spec.all_containers:
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ()):
            needed.add(RESTART_ALL)
    return frozenset(needed)
