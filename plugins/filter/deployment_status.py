# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment_status
short_description: Return whether a Deployment is updated and available
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - A Deployment is ready if its controller has read its present spec, all its replicas are updated, and not more than one is not available.
  - One replica may be missing, because a cluster may have only one node for replicas that need a node each. At least one must be available.
options:
  _input:
    description: The Deployment as the API server returns it. An empty dict is a Deployment that does not exist.
    type: dict
    required: true
  replicas:
    description: The wanted number of replicas.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Wait for the replicas
  kubernetes.core.k8s_info:
    api_version: apps/v1
    kind: Deployment
    namespace: kube-scheduling
    name: kube-scheduling-rescuer
  register: found
  until: (found.resources | first | default({}) | onprem.kube_scheduling.deployment_status(replicas=2)).ready
"""

RETURN = r"""
_value:
  description: >-
    C(ready) is true if the Deployment is ready. C(text) says which replicas are missing. It is empty if none is missing.
  type: dict
"""


def deployment_status(deployment, replicas):
    """Return whether a Deployment is ready with the wanted number of replicas, and a text about the replicas that are missing."""
    status = deployment.get("status") or {}
    wanted = int(replicas)
    updated, available = (int(status.get(name) or 0) for name in ("updatedReplicas", "availableReplicas"))
    is_observed = int(status.get("observedGeneration") or 0) >= deployment.get("metadata", {}).get("generation", 1)
    needed = max(wanted - 1, min(wanted, 1))
    if not is_observed:
        return {"ready": False, "text": "its controller has not read it yet"}
    if updated != wanted:
        return {"ready": False, "text": f"{updated} of {wanted} replicas are updated"}
    return {
        "ready": available >= needed,
        "text": f"{available} of {wanted} replicas are available" if available < wanted else "",
    }


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"deployment_status": deployment_status}
