#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_profile
short_description: Manage a profile or the extenders in the configuration of kube-scheduler
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Adds, changes or removes one profile, extenders, and the settings for leader election and connection in a KubeSchedulerConfiguration.
    It is in a file on the host (O(path)) or in a ConfigMap (O(configmap)).
  - Everything else in the file stays as it is, byte by byte, with comments, order and quotes.
  - Refuses a configuration with which kube-scheduler would not start. Each error names the field, what is wrong, and what to do. Then
    nothing is changed. Legal settings that are probably not intended are returned as RV(warnings).
  - The configuration is computed on the controller, so the host needs no Python library. For O(configmap), the controller connects to the
    API server, too.
  - Does not restart kube-scheduler. It reads its configuration only when it starts.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the file or the ConfigMap.
    support: full
    details:
      - O(validate) does not run in check mode.
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: full
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  path:
    description:
      - The path of the file on the host. A file that does not exist is created. Of a symbolic link, the target is changed.
      - Give either this or O(configmap).
    type: path
  configmap:
    description:
      - The ConfigMap that has the configuration. One that does not exist is created. A write is valid only for the version that was read.
        After a change by another client, it is read again.
      - The connection options apply only to it.
    type: dict
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      namespace:
        description: Its namespace, which must exist.
        type: str
        default: kube-system
      key:
        description: The key in its data that has the text of the configuration.
        type: str
        default: config.yaml
  state:
    description:
      - With V(present), what the options name is in the configuration. With V(absent), the profile O(name) and the extenders with the
        C(urlPrefix) of O(extenders) are not.
      - The profile C(default-scheduler) and the last profile are removed only with O(force).
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - The name of the profile, which pods have in C(spec.schedulerName).
      - A file without profiles has the profile C(default-scheduler) implicitly. It is written out before another profile is added.
      - Without this option only extenders and the other settings are managed.
    type: str
  plugins:
    description:
      - The plugins of the profile by extension point, as in the field C(plugins) of a profile, such as C(score) with the lists C(enabled)
        and C(disabled). The name C(*) in C(disabled) means all default plugins, and C(multiPoint) means all extension points.
      - Replaces all plugin sets of the profile. An empty mapping removes them. By default they are not changed.
    type: dict
  plugin_config:
    description:
      - The arguments of plugins, as in the field C(pluginConfig) of a profile. Each entry has C(name) and C(args).
      - Replaces the whole list. An empty list removes the arguments. By default they are not changed.
    type: list
    elements: dict
  percentage_of_nodes_to_score:
    description:
      - The percentage of all nodes after which kube-scheduler stops searching for more feasible nodes, from 0 to 100. With 0 it depends on
        the size of the cluster.
      - An API version that has the field only for all profiles gets it there, with a warning.
    type: int
  extenders:
    description:
      - Extenders, with the fields of C(extenders) in the configuration, such as C(urlPrefix), C(prioritizeVerb) and C(weight).
      - Each replaces the extender with the same C(urlPrefix), which is required. Other extenders are not changed.
      - kube-scheduler calls an extender for the pods of all profiles.
    type: list
    elements: dict
  leader_election:
    description:
      - Fields of C(leaderElection). Other fields of it are not changed.
    type: dict
  client_connection:
    description:
      - Fields of C(clientConnection), such as C(kubeconfig). Other fields of it are not changed.
    type: dict
  kubernetes_version:
    description:
      - The version of the kube-scheduler that reads the configuration, such as V(1.36) or V(v1.36.3).
      - The configuration is written in the newest API version that it reads, and plugins, extension points and fields are checked by its
        tables. There are tables for 1.26 to 1.36. For an older version plugins are not checked, and for a newer one those of 1.36 apply.
      - This or O(api_version) is required with O(state=present).
    type: str
  api_version:
    description:
      - The API version of the configuration, such as V(v1) or V(kubescheduler.config.k8s.io/v1beta3). V(v1beta2) to V(v1) are supported.
      - A configuration of another version is converted if nothing is lost. Otherwise the module fails and names what would be lost.
      - By default it is the newest one that O(kubernetes_version) reads.
    type: str
  known_plugins:
    description:
      - The names of plugins that are compiled into this kube-scheduler and are not in Kubernetes. Other unknown plugins are refused.
    type: list
    elements: str
  manifest:
    description:
      - The path of the static pod's manifest of the kube-scheduler that reads the file, on the host.
      - With C(--config), kube-scheduler ignores its flags for the connection and for profiling. If the manifest does not have C(--config)
        yet, the values of these flags are written into the configuration, unless it has other values. A flag for leader election that
        contradicts the configuration is refused, because it overrides the file.
    type: path
  command:
    description:
      - The same for a kube-scheduler without a manifest. This is its command line as a list.
    type: list
    elements: str
  force:
    description:
      - With O(state=absent), also remove the profile C(default-scheduler), which pods without a schedulerName need, and the last profile.
      - Also write a configuration with fields that kube-scheduler does not know. Each of them is a warning. kube-scheduler refuses such a
        configuration, unless its binary was built with these fields.
    type: bool
    default: false
  validate:
    description:
      - A command on the host that checks the new file before it replaces the old one. C(%s) is the path of the new file.
      - kube-scheduler itself can check it, see the examples. It reads the files that the configuration names, such as the kubeconfig.
    type: str
  backup:
    description:
      - Keep the old file beside the new one, with the time in its name.
    type: bool
    default: false
  owner:
    description:
      - The user that owns the file. By default it is not changed.
    type: str
  group:
    description:
      - The group that owns the file. By default it is not changed.
    type: str
  mode:
    description:
      - The permissions of the file, such as V('0644'). By default they are not changed, and a new file has V('0600').
    type: raw
notes:
  - The requirements are for the controller. Only O(configmap) needs more than PyYAML, which Ansible itself needs.
  - Unknown fields are refused, also those of an existing configuration, because kube-scheduler refuses fields that it does not know.
    O(force) keeps them. For a version of Kubernetes that is newer than the tables of this module, they are kept with a warning.
  - O(configmap) needs the verbs get, create and patch on configmaps in its namespace.
seealso:
  - name: Scheduler configuration
    description: The documentation of KubeSchedulerConfiguration.
    link: https://kubernetes.io/docs/reference/scheduling/config/
  - name: Scheduler profiles
    description: The guide to schedulers with extenders.
    link: https://onprem.github.io/kube_scheduling/docs/scheduler-profiles.html
  - name: Network-aware scheduling
    description: The guide to the extender and its agents.
    link: https://onprem.github.io/kube_scheduling/docs/network-aware-scheduling.html
"""

EXAMPLES = r"""
- name: Add a profile whose nodes are scored by an extender, checked by kube-scheduler itself
  onprem.kube_scheduling.scheduler_profile:
    path: /etc/kubernetes/scheduler/config.yaml
    kubernetes_version: "1.36"
    name: network-traffic
    extenders:
      - urlPrefix: http://127.0.0.1:8080/scheduler
        prioritizeVerb: prioritize
        weight: 5
        nodeCacheCapable: true
        ignorable: true
        httpTimeout: 200ms
    client_connection:
      kubeconfig: /etc/kubernetes/scheduler.conf
    validate: kube-scheduler --config %s --write-config-to /dev/null --secure-port 0
    backup: true
    mode: "0600"

- name: Prefer full nodes for the pods of one profile
  onprem.kube_scheduling.scheduler_profile:
    path: /etc/kubernetes/scheduler/config.yaml
    kubernetes_version: "1.36"
    name: bin-packing
    plugins:
      score:
        disabled: [{name: NodeResourcesBalancedAllocation}]
        enabled: [{name: NodeResourcesFit, weight: 5}]
    plugin_config:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]

- name: Extend the kube-scheduler of kubeadm, and take over the flags that a configuration file makes ineffective
  onprem.kube_scheduling.scheduler_profile:
    path: /etc/kubernetes/scheduler/config.yaml
    kubernetes_version: v1.36.3
    name: network-traffic
    manifest: /etc/kubernetes/manifests/kube-scheduler.yaml

- name: Use a plugin that is compiled into the scheduler image, in the ConfigMap of a second scheduler
  onprem.kube_scheduling.scheduler_profile:
    configmap:
      name: network-traffic-scheduler
    kubernetes_version: "1.36"
    name: custom-scheduler
    known_plugins: [NetworkTraffic]
    plugins:
      score:
        enabled: [{name: NetworkTraffic, weight: 2}]
    plugin_config:
      - name: NetworkTraffic
        args: {ip: "http://10.0.0.4:9090", deviceName: eth0, timeRange: 60}
    leader_election:
      resourceName: custom-scheduler
  delegate_to: localhost

- name: Remove the profile and its extender
  onprem.kube_scheduling.scheduler_profile:
    path: /etc/kubernetes/scheduler/config.yaml
    state: absent
    kubernetes_version: "1.36"
    name: network-traffic
    extenders:
      - urlPrefix: http://127.0.0.1:8080/scheduler
"""

RETURN = r"""
config:
  description: The configuration after the change, as plain values; empty if there is none.
  returned: success
  type: dict
  sample:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{schedulerName: default-scheduler}, {schedulerName: network-traffic}]
diff:
  description: The texts C(before) and C(after) the change.
  returned: success
  type: dict
  sample:
    before: ""
    after: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n..."
    before_header: /etc/kubernetes/scheduler/config.yaml
    after_header: /etc/kubernetes/scheduler/config.yaml
backup_file:
  description: The path of the old file on the host.
  returned: with O(backup), if an existing file was changed
  type: str
  sample: /etc/kubernetes/scheduler/config.yaml.2114.2026-11-26@02:40:00~
warnings:
  description:
    - Legal settings that are probably not intended, unknown fields with O(force), and what a conversion changes. Each names the place, the
      field, the effect and the remedy.
  returned: if there are some
  type: list
  elements: str
  sample:
    - "the file /etc/kubernetes/scheduler/config.yaml: extenders[0].enableHTTPS: without a CA the certificate is not verified; add
      tlsConfig.caFile or tlsConfig.caData"
"""
