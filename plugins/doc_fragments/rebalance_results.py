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
      - It tells most with O(onprem.kube_scheduling.k8s_spread_check#module:include_healthy=true) and
        O(onprem.kube_scheduling.k8s_spread_check#module:include_nodes=true).
    type: dict
    required: true
  after:
    description: The result of a second check after the restarts.
    type: dict
  restart:
    description: The result of M(onprem.kube_scheduling.k8s_rollout_restart).
    type: dict
  plan:
    description: Whether O(restart) comes from check mode and tells what would be done.
    type: bool
    default: false
  cluster:
    description: What to call the cluster.
    type: str
    default: ""
  error:
    description: What went wrong, if anything did.
    type: str
    default: ""
"""
