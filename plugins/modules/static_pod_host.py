#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: static_pod_host
short_description: Run a static pod on a host of kubeadm
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Runs on a control-plane host. The roles P(onprem.kube_scheduling.critical_rescuer#role) and
    P(onprem.kube_scheduling.extended_scheduler#role) call it.
  - The program C(kubeadm) on the host signs the client certificate of the pod. The private key stays on the host, and is in no result.
  - The pod works when a process in one of its containers has the hash of this manifest, and each of its ports answers C(/readyz). The API
    server is not asked. A manifest that does not work is replaced by the one that worked before, also after an interruption.
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the host.
    support: full
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: partial
    details:
      - The kubeconfig is not shown, because it has a private key.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(checked), return each reason why the host cannot run the pod of the rescuer, and change nothing.
      - With V(present), write the files, and wait until the pod works. Without O(pod) there is only the kubeconfig.
      - With V(verified), return what is missing.
      - With V(absent), remove the manifest, wait until the pod has ended, and remove its files. Files of others stay.
    type: str
    choices: [checked, present, verified, absent]
    required: true
  host:
    description: The name of the host in the inventory, for messages.
    type: str
    required: true
  name:
    description: The name of the pod in the manifest. It is in the namespace C(kube-system).
    type: str
    required: true
  folder:
    description: The folder of the kubeconfig and of O(settings). Its mode becomes 0700.
    type: path
    required: true
  manifest_path:
    description: The path of the manifest, in the folder that the kubelet reads.
    type: path
    default: ""
  pod:
    description: The pod. The module adds the hash of the files to its annotations and to the environment of its containers.
    type: dict
    default: {}
  uid:
    description: The number of the user and of the group that own the folder and its files.
    type: int
    default: 0
  settings:
    description: The text of each file that the pod reads. A change of a file needs another name, if an earlier manifest names the file.
    type: dict
    default: {}
  user:
    description: The user of the client certificate.
    type: str
    default: ""
  renew_days:
    description: The kubeconfig is made again if the certificate has fewer days left.
    type: int
    default: 30
  kubeadm:
    description: The path of C(kubeadm) on the host.
    type: str
    default: kubeadm
  kubeadm_config:
    description: The path of a configuration of kubeadm on the host.
    type: str
    default: ""
  cluster:
    description: The text of the ClusterConfiguration of kubeadm, if there is no O(kubeadm_config).
    type: str
    default: ""
  port:
    description: The port that no other program may use, with O(state=checked).
    type: int
    default: 0
  wait_timeout:
    description: The longest time in seconds until the pod works, or until it has ended. With V(0) it is not waited for.
    type: int
    default: 180
  with_earlier:
    description: Keep the containers of the manifest in use that O(pod) does not have, while others still use them.
    type: bool
    default: false
  nodes:
    description:
      - With O(state=verified) and O(state=absent), the pod counts only if the kubelet of the host runs it on one of these Nodes. Any
        kubelet can make a pod that names another host, also one of another cluster. An empty list means each Node.
    type: list
    elements: str
    default: []
  leftovers:
    description: Patterns of more files, and of folders that are removed if they are empty, with O(state=absent).
    type: list
    elements: str
    default: []
requirements:
  - python >= 3.9
seealso:
  - name: The rescuer
    description: The guide with the static pod of the rescuer.
    link: https://onprem.github.io/kube_scheduling/docs/rescuer.html
"""

EXAMPLES = r"""
- name: Verify the static pod of the rescuer
  onprem.kube_scheduling.static_pod_host:
    state: verified
    host: "{{ inventory_hostname }}"
    name: kube-scheduling-rescuer
    folder: /etc/kubernetes/kube-scheduling-rescuer
    manifest_path: /etc/kubernetes/manifests/kube-scheduling-rescuer.yaml
    pod: "{{ lookup('ansible.builtin.template', 'static_pod.yml.j2') | from_yaml }}"
  register: verified
"""

RETURN = r"""
problems:
  description: The reasons why the host cannot be used, or what is missing. Each is a sentence with the remedy.
  returned: success
  type: list
  elements: str
  sample: ["cp-1: another program uses port 9235, which the static pod needs: set critical_rescuer_port to a free port"]
remarks:
  description: Sentences about the host that need no action.
  returned: with O(state=verified)
  type: list
  elements: str
  sample: ["cp-1: the client certificate of the static pod kube-scheduling-rescuer expires in 364 days"]
is_there:
  description: Whether the host has a manifest of this cluster.
  returned: with O(state=verified)
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import run_state
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.static_pod import StaticPodHost


def argument_spec():
    """Return the options."""
    texts = {name: {"type": "str", "default": ""} for name in ("user", "kubeadm_config", "cluster")}
    return {
        "state": {"type": "str", "choices": ["checked", "present", "verified", "absent"], "required": True},
        "host": {"type": "str", "required": True},
        "name": {"type": "str", "required": True},
        "folder": {"type": "path", "required": True},
        "manifest_path": {"type": "path", "default": ""},
        "pod": {"type": "dict", "default": {}},
        "uid": {"type": "int", "default": 0},
        "settings": {"type": "dict", "default": {}},
        **texts,
        "renew_days": {"type": "int", "default": 30},
        "kubeadm": {"type": "str", "default": "kubeadm"},
        "port": {"type": "int", "default": 0},
        "wait_timeout": {"type": "int", "default": 180},
        "with_earlier": {"type": "bool", "default": False},
        "nodes": {"type": "list", "elements": "str", "default": []},
        "leftovers": {"type": "list", "elements": "str", "default": []},
    }


def main():
    """Run the module."""
    run_state(AnsibleModule(argument_spec(), supports_check_mode=True), StaticPodHost, open_url)


if __name__ == "__main__":
    main()
