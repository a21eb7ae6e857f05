#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_spread_check
short_description: Find workloads whose replicas are on too few nodes
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Checks how the replicas of Deployments and StatefulSets are spread over nodes, zones or the values of another node label.
  - Predicts for every collapsed or skewed workload whether a restart would spread it better. Returns the reasons that prevent it, and the
    changes of the template that would make the spread last.
  - Never changes anything in the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  diff_mode:
    support: N/A
    details:
      - The module never changes anything.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  namespaces:
    description:
      - The namespaces to check. Each must exist.
      - By default all namespaces that have O(namespace_annotation).
    type: list
    elements: str
  exclude_namespaces:
    description:
      - Namespaces that are not checked, also if O(namespaces) names them. A name without a namespace is not an error.
    type: list
    elements: str
  namespace_label_selectors:
    description:
      - Only check namespaces whose labels match every one of these selectors, in the syntax of C(kubectl --selector).
    type: list
    elements: str
  namespace_annotation:
    description:
      - The annotation, as C(key=value), that a namespace must have to be checked. The value is compared exactly.
      - By default C(kube-scheduling.onprem/spread=allow). C(collectdeployments=allow) of the original CronJob then counts, too.
      - An empty string means all namespaces, with and without annotations.
      - With an empty string and without O(namespaces), workloads of C(kube-system) and those with a system-critical priority are checked
        and shown, and are not in RV(restartable), RV(uneven) and RV(interrupted). So no action moves them.
    type: str
  label_selectors:
    description:
      - Only check workloads whose own labels match every one of these selectors, in the syntax of C(kubectl --selector).
    type: list
    elements: str
    aliases: [label_selector]
  kinds:
    description:
      - The kinds of workload to check.
    type: list
    elements: str
    choices: [Deployment, StatefulSet]
    default: [Deployment, StatefulSet]
  topology_keys:
    description:
      - The node labels whose values are the domains that replicas are spread over. Each must be on some node.
      - With several keys the worst verdict counts. Between equal verdicts, the key listed first counts.
    type: list
    elements: str
    default: [kubernetes.io/hostname]
  max_skew:
    description:
      - The largest difference of replicas between two eligible domains with which a workload still counts as even. At least 1.
      - If it is unset, only workloads whose replicas are all in one domain are found.
    type: int
  min_ready_nodes:
    description:
      - The number of nodes that must be eligible for a workload, or for a pod without rules. With fewer nodes, no workload is checked, the
        module succeeds, and RV(reason) is V(too_few_ready_nodes). On a single node replicas cannot be spread.
    type: int
    default: 2
  predict:
    description:
      - Predict the result of a restart. With V(false), RV(workloads[].restart_helps) is null and no workload is restartable.
    type: bool
    default: true
  cooldown:
    description:
      - The O(onprem.kube_scheduling.k8s_rollout_restart#module:cooldown) of the restart, in seconds or as V(30s), V(10m), V(1h).
        RV(restartable) has no workload that it excludes.
    type: str
    default: '600'
  max_attempts:
    description:
      - The O(onprem.kube_scheduling.k8s_rollout_restart#module:max_attempts) of the restart.
    type: int
    default: 3
  scheduler_config:
    description:
      - The KubeSchedulerConfigurations of the cluster's schedulers. Each entry is the path of a file on the host on which the module runs,
        or C(configmap:NAMESPACE/NAME/KEY). Without C(/KEY) the key is C(config.yaml). A ConfigMap needs the verb get on it.
      - If the module runs on the controller, a relative path starts in the folder in which Ansible was started. If that folder does not
        have the file, the file may be in the folder of the playbook. On another host, a relative path starts in the folder in which
        modules run there.
      - A pod is judged by the profile that it names in C(spec.schedulerName). The disabled plugins of the profile, its added node affinity,
        default topology spread constraints and ignored resources change the nodes on which the pod can run. Its plugins for scores, with
        their weights and arguments, choose between these nodes.
      - If an extender with C(filterVerb) or C(prioritizeVerb), or a plugin that is not one of Kubernetes, may reject or score nodes, the
        result for the pod is unknown.
      - The scheduler of the role P(onprem.kube_scheduling.extended_scheduler#role) needs no entry. Its profiles are read from its
        Deployment if a pod names one of them, and if the user may list Deployments in C(kube-system).
      - Without an entry that has the profile C(default-scheduler), its default plugins are assumed. For any other unknown profile the
        result is unknown (C(foreign_scheduler)).
    type: list
    elements: str
  include_healthy:
    description:
      - List healthy workloads in RV(workloads), too. They are always counted in RV(summary).
    type: bool
    default: false
  include_nodes:
    description:
      - Return RV(node_list), for maps and reports.
    type: bool
    default: false
notes:
  - A workload or namespace with the annotation C(kube-scheduling.onprem/spread=ignore) is left out.
  - A workload whose containers cannot start (C(unhealthy_pods)), or without a ready replica (C(no_ready_replica)), is not restartable.
    RV(workloads[].blockers) has the reason.
  - Needs the verb list on nodes, namespaces, pods, resourcequotas, limitranges, deployments, statefulsets, replicasets,
    poddisruptionbudgets and horizontalpodautoscalers, and on persistentvolumeclaims if a workload mounts one. C(docs/rebalance.md) has the
    role. RV(skipped_namespaces) has the namespaces in which one of these verbs is missing. If no chosen namespace can be read, the module
    fails and names the cause (C(unreadable)).
  - Also needs the verb list on services. Without it C(restart_helps) may be null (C(default_constraints)) for StatefulSets without topology
    spread constraints. No namespace is skipped.
  - For workloads that mount a claim, also needs the verb list on persistentvolumes, storageclasses, csinodes, csidrivers,
    csistoragecapacities and volumeattachments. For workloads that request an extended resource, also needs the verb list on deviceclasses.
    Without these verbs C(restart_helps) of such workloads is null.
seealso:
  - module: onprem.kube_scheduling.k8s_rollout_restart
  - name: Rebalancing
    description: The guide with the meaning of each verdict, the permissions and the prediction.
    link: https://onprem.github.io/kube_scheduling/docs/rebalance.html
  - name: Concepts
    description: The way from the count of the pods to the outcome, with a picture.
    link: https://onprem.github.io/kube_scheduling/docs/concepts.html#how-a-restart-is-judged
"""

EXAMPLES = r"""
- name: Find collapsed workloads in all namespaces annotated kube-scheduling.onprem/spread=allow
  onprem.kube_scheduling.k8s_spread_check:
  register: spread

- name: Restart the workloads that a restart would spread
  onprem.kube_scheduling.k8s_rollout_restart:
    check: "{{ spread }}"

- name: Check nodes and zones of one namespace, and allow a difference of one replica
  onprem.kube_scheduling.k8s_spread_check:
    namespaces: [shop]
    namespace_annotation: ""
    topology_keys: [topology.kubernetes.io/zone, kubernetes.io/hostname]
    max_skew: 1
    include_healthy: true

- name: Count the workloads of another cluster, without a prediction
  onprem.kube_scheduling.k8s_spread_check:
    kubeconfig: ~/.kube/berlin
    predict: false
"""

RETURN = r"""
cluster:
  description: The cluster of the connection.
  returned: if the settings of the connection can be read
  type: dict
  contains:
    name:
      description: Its name in the kubeconfig. Without a kubeconfig, the URL of the API server.
      type: str
    context:
      description: The context of the kubeconfig. Without a kubeconfig it is empty.
      type: str
    server:
      description: The URL of the API server, without a login.
      type: str
  sample: {name: berlin, context: admin@berlin, server: "https://10.0.0.10:6443"}
nodes:
  description: >-
    The number of all nodes, of ready nodes, and of nodes that are eligible for a workload, or for a pod without rules. An eligible node is
    ready and schedulable, and the node selector, the node affinity and the tolerations of the pods allow it.
  returned: success, and if no chosen namespace can be read
  type: dict
  sample: {total: 7, ready: 7, eligible: 6}
reason:
  description: >-
    The code of the reason why no workload was checked; empty if workloads were checked. It is V(too_few_ready_nodes), V(no_namespace),
    V(no_workload) (O(label_selectors) match no workload) or V(unreadable) (the module fails, because no chosen namespace can be read).
  returned: success, and if no chosen namespace can be read
  type: str
  sample: ""
message:
  description: The text of RV(reason) for people; empty if workloads were checked.
  returned: success, and if no chosen namespace can be read
  type: str
  sample: ""
summary:
  description: The number of checked namespaces, and of workloads by verdict. C(restartable) is the length of RV(restartable).
  returned: success, and if no chosen namespace can be read
  type: dict
  sample: {namespaces: 3, checked: 12, healthy: 9, collapsed: 2, skewed: 0, rolling: 0, skipped: 1, unknown: 0, restartable: 2}
workloads:
  description: The workloads that are not healthy, or all with O(include_healthy).
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  contains:
    kind:
      description: Deployment or StatefulSet.
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
    uid:
      description: Its UID.
      type: str
    replicas:
      description: The number of replicas in its spec.
      type: int
    placed:
      description: Replicas of the current revision that are on a node, not terminating and not finished.
      type: int
    domains:
      description: >-
        The number of placed replicas by topology key and domain. Eligible domains without replicas are listed with 0, unless there are
        more than 100 of them.
      type: dict
    eligible_domains:
      description: The number of domains with eligible nodes, by topology key.
      type: dict
    verdict:
      description: >-
        V(healthy), V(collapsed) (all in one domain while others are eligible), V(skewed) (uneven by more than O(max_skew)), V(rolling)
        (a rollout is in progress), V(skipped) or V(unknown).
      type: str
    reason:
      description: The code of the reason for the verdict.
      type: str
    message:
      description: The text of the reason for people.
      type: str
    restart_helps:
      description:
        - True if a restart would spread the replicas better, false if it would not, and null if that is unknown or was not predicted.
        - The new pods have the pod template with the changes of admission. The changes are those of the live pods of the current revision.
        - The prediction is for a restart that does not add spread constraints.
      type: bool
    awaits_ends:
      description:
        - True if RV(workloads[].restart_helps) is for a restart after the end of the pods that are terminating now. Before that it is
          unknown. M(onprem.kube_scheduling.k8s_rollout_restart) waits for their end.
      type: bool
    feasible_domains:
      description: The domains that have free capacity for the first new pod of a restart, by topology key; at most 20 of each.
      type: dict
    expected:
      description:
        - The number of replicas by topology key and domain after the first of the simulated restarts. It is one possible result.
        - It is empty if the restart is not simulated with the scores of the scheduler, because the filters allow no better spread or
          a result is unknown.
      type: dict
    blockers:
      description: The reasons why a restart is refused, why it does not help, or why the prediction is unknown.
      type: list
      elements: dict
      contains:
        reason:
          description:
            - The code. V(pods_differ) means that live pods of one revision differ; the message names the field.
            - V(scoring_does_not_spread) means that the new pods could run elsewhere, and that the scores of the scheduler would not spread
              them. With V(depends_on_ties) and V(depends_on_sampling), the result depends on choices of the scheduler that are not known.
              With V(depends_on_termination), it depends on how long terminating pods take to end, and with V(depends_on_readiness) on
              whether new pods become ready at the same time. With V(depends_on_removal_order), it depends on the order in which a
              Deployment loses its old pods. V(waits_for_ready_pod) means that the controller of a StatefulSet replaces no pod until one of
              them is Ready. V(waits_for_lost_pod) means that the controller waits for the end of a pod on a node that is not Ready.
              With V(preempts), the scheduler would preempt pods with a lower priority for a new pod, and with V(depends_on_preemption) it
              may do so. With V(depends_on_extender), it depends on an extender of the scheduler that filters or scores nodes.
              V(no_better_spread) means that no choice of nodes would spread them better. C(docs/rebalance.md) says what to do.
          type: str
        message:
          description: The text for people; the scheduler's own message if it has one.
          type: str
        nodes:
          description: The number of nodes that the reason excludes; 0 if it is not about nodes.
          type: int
    advice:
      description: Changes of the template that would make the spread last.
      type: list
      elements: dict
      contains:
        reason:
          description: The code of the advice. C(docs/rebalance.md) lists the codes.
          type: str
        message:
          description: The text of the advice for people.
          type: str
        patch:
          description:
            - The complete strategic merge patch that makes the change, for kustomize or C(kubectl patch --patch-file).
            - It is empty if the change needs a decision of a person. V(no_spreading_rule) has the patch that
              M(onprem.kube_scheduling.k8s_rollout_restart) writes with
              O(onprem.kube_scheduling.k8s_rollout_restart#module:spread_constraint=add).
            - V(scoring_does_not_spread) replaces V(no_spreading_rule). It has that patch if a restart with it helps. Otherwise it has the
              patch with C(DoNotSchedule) for O(topology_keys) if a restart with that one helps. Pods may stay pending with it. It is empty
              if neither is certain to help.
          type: dict
  sample:
    - kind: Deployment
      namespace: shop
      name: web
      uid: 1f0f5c6e-8f0e-4a57-9d3e-0d4f2f4f7a10
      replicas: 3
      placed: 3
      domains: {kubernetes.io/hostname: {worker-1: 3, worker-2: 0, worker-3: 0}}
      eligible_domains: {kubernetes.io/hostname: 3}
      verdict: collapsed
      reason: collapsed
      message: all 3 placed replicas in kubernetes.io/hostname=worker-1, 3 domains are eligible
      restart_helps: true
      awaits_ends: false
      feasible_domains: {kubernetes.io/hostname: [worker-1, worker-2, worker-3]}
      expected: {kubernetes.io/hostname: {worker-1: 1, worker-2: 1, worker-3: 1}}
      blockers: []
      advice:
        - reason: no_spreading_rule
          message: add a topologySpreadConstraint or a pod anti-affinity over kubernetes.io/hostname, so that ...
          patch:
            apiVersion: apps/v1
            kind: Deployment
            metadata: {namespace: shop, name: web}
            spec:
              template:
                spec:
                  topologySpreadConstraints:
                    - maxSkew: 1
                      topologyKey: kubernetes.io/hostname
                      whenUnsatisfiable: ScheduleAnyway
                      labelSelector: {matchLabels: {app: web}}
                      matchLabelKeys: [pod-template-hash]
restartable:
  description:
    - The workloads that a rollout helps and that M(onprem.kube_scheduling.k8s_rollout_restart) would not refuse, except as V(too_slow).
      The check does not know its O(onprem.kube_scheduling.k8s_rollout_restart#module:wait_timeout).
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  sample: [{kind: Deployment, namespace: shop, name: web}]
uneven:
  description:
    - All workloads with the verdict V(collapsed) or V(skewed), except those of the system, see O(namespace_annotation).
      M(onprem.kube_scheduling.k8s_rollout_restart) takes them with
      O(onprem.kube_scheduling.k8s_rollout_restart#module:strategy=evict_surplus) or V(auto), and with
      O(onprem.kube_scheduling.k8s_rollout_restart#module:spread_constraint=add), because these may help where a rollout alone does not.
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  sample: [{kind: Deployment, namespace: shop, name: web}, {kind: StatefulSet, namespace: shop, name: queue}]
interrupted:
  description:
    - The workloads that an earlier run restarted, or whose pods it evicted, without a check of the result. Their verdict does not matter.
      M(onprem.kube_scheduling.k8s_rollout_restart) takes them, too. It records their outcome, and moves no pod of a workload that is not
      uneven any more.
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  sample: []
node_list:
  description: The nodes, sorted by zone and name.
  returned: with O(include_nodes)
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    hostname:
      description: >-
        The value of its label C(kubernetes.io/hostname), which RV(workloads[].domains) uses; empty without the label. It can differ from
        the name.
      type: str
    zone:
      description: The value of its label C(topology.kubernetes.io/zone); empty without the label.
      type: str
    ready:
      description: True if it is ready.
      type: bool
    schedulable:
      description: True if it is not cordoned.
      type: bool
  sample: [{name: worker-1, hostname: worker-1, zone: a, ready: true, schedulable: true}]
skipped_namespaces:
  description: Chosen namespaces that could not be read, and namespaces that O(namespaces) names and that lack the annotation or the labels.
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  contains:
    namespace:
      description: Its name.
      type: str
    reason:
      description: The code; V(unreadable), V(undecodable), V(not_annotated) or V(labels_not_matched).
      type: str
    message:
      description: The text of the reason for people.
      type: str
  sample: [{namespace: vault, reason: unreadable, message: "cannot list pods in namespace vault: ..."}]
skipped_objects:
  description: >-
    Objects of the API server that cannot be decoded. Their effect is unknown, for example the free capacity of the node of such a pod, the
    pods that such a PodDisruptionBudget selects, and the revision of a Deployment with such a ReplicaSet. Such a node is no candidate, and
    the workloads of such a namespace are not checked.
  returned: success, and if no chosen namespace can be read
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
    namespace:
      description: Its namespace; empty for a cluster-scoped object, and if it cannot be read.
      type: str
    name:
      description: Its name; empty if it cannot be read.
      type: str
    reason:
      description: Always V(undecodable).
      type: str
    message:
      description: The part that cannot be decoded, and the error.
      type: str
  sample:
    - kind: PodDisruptionBudget
      namespace: shop
      name: web
      reason: undecodable
      message: "cannot read the answer as PodDisruptionBudget: Expected `int`, got `str` - at `$.status.desiredHealthy`"
options:
  description: >-
    The options that the check used, by their names, with their defaults. An option without a value is null.
  returned: success, and if no chosen namespace can be read
  type: dict
  sample:
    namespaces: null
    exclude_namespaces: [kube-system]
    namespace_label_selectors: []
    namespace_annotation: kube-scheduling.onprem/spread=allow
    label_selectors: []
    kinds: [Deployment, StatefulSet]
    topology_keys: [kubernetes.io/hostname]
    max_skew: null
    min_ready_nodes: 2
    predict: true
    cooldown: 600
    max_attempts: 3
    scheduler_config: []
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.gc_pause import gc_paused
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import (
    check_result,
    nodes_to_result,
    read_error,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.run import run_check
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import check_options


def argument_spec():
    """Return the module's own options."""
    return {
        "namespaces": {"type": "list", "elements": "str"},
        "exclude_namespaces": {"type": "list", "elements": "str"},
        "namespace_label_selectors": {"type": "list", "elements": "str"},
        # No default here: ansible-core 2.21 makes an empty string of null if an option has a default.
        "namespace_annotation": {"type": "str"},
        "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
        "kinds": {
            "type": "list",
            "elements": "str",
            "choices": ["Deployment", "StatefulSet"],
            "default": ["Deployment", "StatefulSet"],
        },
        "topology_keys": {"type": "list", "elements": "str", "no_log": False, "default": ["kubernetes.io/hostname"]},
        "max_skew": {"type": "int"},
        "min_ready_nodes": {"type": "int", "default": 2},
        "predict": {"type": "bool", "default": True},
        "cooldown": {"type": "str", "default": "600"},
        "max_attempts": {"type": "int", "default": 3},
        "scheduler_config": {"type": "list", "elements": "str"},
        "include_healthy": {"type": "bool", "default": False},
        "include_nodes": {"type": "bool", "default": False},
    }


def execute(module, result):
    """Read the cluster and check the spread of the workloads."""
    options = check_options(module.params)
    api = connect(module, name="k8s_spread_check")
    snapshot, report = run_check(api, options)
    result.update(check_result(report, options, include_healthy=module.params["include_healthy"]))
    if module.params["include_nodes"]:
        result["node_list"] = nodes_to_result(snapshot)
    error = read_error(result)
    if error:
        result.update(failed=True, msg=error)


def main():
    """Run the module."""
    # The process ends with the result, so a search of its many objects for cycles would only take time.
    with gc_paused():
        run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
