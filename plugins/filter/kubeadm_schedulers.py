# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubeadm_schedulers
short_description: Return the files for the schedulers of a cluster that kubeadm has made
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes the KubeSchedulerConfiguration and the manifest of each control-plane host, and the ClusterConfiguration of kubeadm, from the
    present ones. The role P(onprem.kube_scheduling.extended_scheduler#role) writes them.
  - Everything else in the texts stays as it is, byte by byte.
options:
  _input:
    description: >-
      What M(onprem.kube_scheduling.kubeadm_scheduler_host) has read of each host, by the name of the host.
    type: dict
    required: true
  cluster:
    description: The text of the ClusterConfiguration in the ConfigMap C(kube-system/kubeadm-config).
    type: str
    default: ""
  folder:
    description: The folder of the configuration files on the hosts.
    type: str
    required: true
  manifest_path:
    description: The path of the manifest, for messages.
    type: str
    required: true
  kubernetes_version:
    description: The version of kube-scheduler, such as V(1.36.3).
    type: str
    required: true
  profiles:
    description: The profiles that are wanted. Without one, the changes of earlier runs are removed from the texts.
    type: list
    elements: dict
    default: []
  extenders:
    description: The extenders that are wanted, with their C(urlPrefix).
    type: list
    elements: dict
    default: []
  known_plugins:
    description: The names of plugins that are compiled into this kube-scheduler and are not in Kubernetes.
    type: list
    elements: str
    default: []
  git_version:
    description: The version of the API server, such as V(v1.36.3+k3s1). Without it, the cluster is not checked.
    type: str
    default: ""
  objects:
    description: >-
      The ConfigMap C(kube-system/kubeadm-config), the pods with the label C(component=kube-scheduler), the control-plane Nodes, and the
      Lease of kube-scheduler.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the manifests without the changes of the role
  ansible.builtin.debug:
    msg: "{{ (hosts | onprem.kube_scheduling.kubeadm_schedulers(**options)).hosts['cp-1'].manifest }}"
  vars:
    hosts:
      cp-1:
        manifest: "{{ lookup('ansible.builtin.file', 'kube-scheduler.yaml') }}"
    options:
      folder: /etc/kubernetes/extended-scheduler/scheduler
      manifest_path: /etc/kubernetes/manifests/kube-scheduler.yaml
      kubernetes_version: 1.36.3
"""

RETURN = r"""
_value:
  description: >-
    C(file) is the path of the configuration file. C(hosts) has by host C(config), C(manifest), C(original), whether the new manifest
    C(differs), and the command lines. C(nodes) has the Node of each host, and C(order) the hosts with the leader
    at the end. C(cluster) is the text of the ClusterConfiguration, and C(configuration) the ConfigMap with it, if it
    differs. C(dropped) has
    the profiles that are not wanted any more. C(errors), C(warnings) and C(missing) are lists of sentences. With an error nothing may be
    written.
  type: dict
"""

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeadm_plan import Cluster, SchedulerWish, plan_schedulers
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain


def kubeadm_schedulers(hosts, *, cluster="", git_version="", objects=(), **wish):
    """Return the plan for the schedulers of all control-plane hosts."""
    found = Cluster(str(git_version), plain(objects))
    return plan_schedulers(plain(hosts), plain(cluster), SchedulerWish(**plain(wish)), found)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"kubeadm_schedulers": kubeadm_schedulers}
