# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes that every module of this collection supports."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the cluster.
    support: full
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: none
  action_group:
    description: >-
      Use C(group/onprem.kube_scheduling.k8s) in C(module_defaults) to set the connection options of these modules and of
      C(kubernetes.core) together.
    support: full
    membership:
      - onprem.kube_scheduling.k8s
"""
