# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Over what replicas are to be spread, and how evenly."""

    DOCUMENTATION = r"""
options:
  topology_keys:
    description:
      - The node labels whose values are the domains that replicas are spread over. Each must be on some node.
      - With several the worst verdict counts, and of equal ones the key listed first.
    type: list
    elements: str
    default: [kubernetes.io/hostname]
  max_skew:
    description:
      - The difference between the fullest and the emptiest eligible domain, in replicas, up to which a workload counts as even.
        At least 1.
      - Left out, only workloads whose replicas are all in one domain are found.
    type: int
"""
