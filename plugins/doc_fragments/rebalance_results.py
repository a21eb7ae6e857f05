# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The results of a rebalance run, which the report filters take."""

    DOCUMENTATION = r"""
options:
  _input:
    description:
      - The registered result of M(onprem.kube_scheduling.k8s_spread_check).
      - With O(onprem.kube_scheduling.k8s_spread_check#module:include_healthy=true) and
        O(onprem.kube_scheduling.k8s_spread_check#module:include_nodes=true) the output also has the healthy workloads and the nodes without
        replicas.
    type: dict
    required: true
  after:
    description: The result of a second check after the restarts.
    type: dict
  restart:
    description: The result of M(onprem.kube_scheduling.k8s_rollout_restart).
    type: dict
  plan:
    description: O(restart) is a result of check mode, which has the planned actions.
    type: bool
    default: false
  error:
    description: The error of the run; empty if there was none.
    type: str
    default: ""
"""
