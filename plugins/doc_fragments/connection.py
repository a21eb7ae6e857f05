# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The requirements of each module that connects to a cluster."""

    DOCUMENTATION = r"""
options: {}  # a fragment must have them
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
  - msgspec >= 0.19
  - PyYAML >= 6.0
  - urllib3 >= 2.0.2
notes:
  - The Python library kubernetes is imported only for a kubeconfig whose user has an exec plugin or an auth provider.
"""
