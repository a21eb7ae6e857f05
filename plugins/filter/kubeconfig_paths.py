# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubeconfig_paths
short_description: Return the absolute paths of kubeconfigs
version_added: 1.1.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - A relative path starts in the folder in which Ansible was started. If that folder does not have the file, the file may be in the folder
    of the playbook, or in C(files) there.
  - Ansible runs modules in the folder of the playbook, and C(kubernetes.core) searches for a relative path only there and in roles.
  - Without a path, the result has the paths of C(K8S_AUTH_KUBECONFIG) or C(KUBECONFIG) if one of them is relative. Otherwise it is empty,
    and a module reads the variable by itself.
options:
  _input:
    description: A path, or several paths with colons between them.
    type: str
    required: true
  playbook_dir:
    description: The folder of the playbook, which Ansible has in the variable C(playbook_dir).
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read the nodes
  kubernetes.core.k8s_info:
    kind: Node
    kubeconfig: "{{ my_kubeconfig | default('') | onprem.kube_scheduling.kubeconfig_paths(playbook_dir) | default(omit, true) }}"
"""

RETURN = r"""
_value:
  description: The paths, with colons between them.
  type: str
"""

import os

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.secrets import KUBECONFIG_VARIABLES
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.start_folder import absolute_path, each_path, has_file

OTHER_CLUSTERS = ("K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST")
"""Variables of a cluster that has precedence over that of KUBECONFIG."""


def kubeconfig_paths(kubeconfig, playbook_dir):
    """Return the absolute paths. See the documentation above for an empty text."""

    def absolute(path):
        return absolute_path(path, f"{playbook_dir}/files", playbook_dir)

    if kubeconfig:
        return each_path(kubeconfig, absolute)
    given = next((os.environ[name] for name in reversed(KUBECONFIG_VARIABLES) if os.environ.get(name)), "")
    paths = each_path(given, absolute)
    if paths == given or any(os.environ.get(name) for name in OTHER_CLUSTERS):
        return ""
    # As kubectl, which needs only one of the files.
    found = [path for path in paths.split(os.pathsep) if path and has_file(path)]
    return os.pathsep.join(found) or paths


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"kubeconfig_paths": kubeconfig_paths}
