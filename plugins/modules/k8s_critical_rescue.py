#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_critical_rescue
short_description: Free capacity for critical pods for which the scheduler finds no node
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Finds critical pods (DNS, network, metrics, DaemonSets of kube-system) that are pending because all nodes are full. Evicts the smallest
    set of pods with the lowest priorities that frees enough capacity, never against a PodDisruptionBudget.
  - Reserves the capacity until the pod is bound, by a taint with the hash of the pod and a deadline. The next run continues the rescues of
    a killed run, or releases their nodes.
  - Waits for O(settle_time) first where kube-scheduler may preempt pods, because its preemption is faster. A rescue helps where
    preemption does not, for example among pods of equal priority, for pods that are critical only by annotation, with a profile without
    preemption, or if the scheduler's victims do not end. The scheduler's preemption may violate PodDisruptionBudgets; C(docs/rescue.md)
    has the scheduler profile that leaves all evictions to this module.
  - Evicts nothing if that would not help. Nodes that are closed for another reason than lack of capacity, a scheduler that is not running
    and a preemption that is under way are reported instead.
  - Only one program evicts pods at a time, the holder of the Lease C(kube-scheduling-rescue) in C(kube-system).
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  diff_mode:
    support: full
    details:
      - Shows the taints of each node that is held or released, before and after, and the evicted pods by node. A node that is held and
        released by the same run appears twice.
  idempotent:
    description: A second run with the same options changes nothing.
    support: partial
    details:
      - A pod that is bound is not rescued again, and a released node is not released again. While a critical pod has no node, each run can
        evict pods for it, within O(max_attempts).
options:
  state:
    description:
      - V(rescued) frees capacity for critical pods, and releases held nodes that no rescue needs any more.
      - V(released) rescues no pod, and releases every held node, also the nodes of rescues that have not ended. If a rescuer has the Lease,
        the task fails and names it.
    type: str
    choices: [rescued, released]
    default: rescued
  namespaces:
    description: The namespaces whose pods are rescued. If one does not exist, the task fails, unless O(state=released).
    type: list
    elements: str
    default: [kube-system]
  name:
    description: Only the pod with this name. If it cannot be rescued, the task fails. Without a name this is only reported.
    type: str
  label_selectors:
    description: Only pods that match all of these selectors, in the syntax of C(kubectl get --selector). The API server evaluates them.
    type: list
    elements: str
    aliases: [label_selector]
  priority_threshold:
    description: A pod with at least this priority is critical. The default is the priority of the class C(system-cluster-critical).
    type: int
    default: 2000000000
  honor_critical_annotation:
    description:
      - The namespaces in which the annotation C(scheduler.alpha.kubernetes.io/critical-pod) with an empty value makes a pod critical, as
        with priority 2000000000. Kubernetes itself has ignored the annotation since 1.16.
      - V(kube-system) honors it in that namespace only, V(all) in all of O(namespaces), V(none) in no namespace.
      - With V(all) everyone who may create pods in one of these namespaces can have pods evicted in the whole cluster.
    type: str
    choices: [kube-system, all, none]
    default: kube-system
  grace_period:
    description:
      - The maximum grace period of an evicted pod, in seconds or as V(30s). A pod with a shorter grace period gets its own.
      - Pods with a longer grace period are not evicted without O(allow_short_grace). The default is the grace period of most pods.
      - At least 1; 0 only with O(allow_zero_grace).
    type: str
    default: "30"
  allow_zero_grace:
    description: Allow a O(grace_period) of 0, which ends pods without warning. Pods of StatefulSets still get 1 second.
    type: bool
    default: false
  max_victims:
    description: The maximum number of pods that are evicted for one critical pod. Unset means no maximum.
    type: int
  allow_equal_priority:
    description: >-
      Allow to evict pods with the same priority, and critical pods, unless they have the same controller. A pod with the same priority that
      was rescued itself a short time ago is not evicted.
    type: bool
    default: false
  allow_short_grace:
    description: Allow to evict pods with a longer grace period than O(grace_period). They get only O(grace_period).
    type: bool
    default: false
  allow_bare_pods:
    description: Allow to evict pods without a controller. No controller replaces them.
    type: bool
    default: false
  allow_local_storage:
    description: Allow to evict pods with V(emptyDir) or V(hostPath) volumes. Their data stays on the node or is lost.
    type: bool
    default: false
  respect_windows:
    description:
      - Do not evict a pod outside of the maintenance window of its workload or namespace, which is the annotation
        C(kube-scheduling.onprem/window). By default windows do not count, so that a tenant cannot prevent a rescue.
      - Needs the verbs list and watch on deployments, statefulsets and replicasets. C(docs/rebalance.md) has the syntax of the annotation.
    type: bool
    default: false
  settle_time:
    description:
      - The time, in seconds or as V(2s), in which the scheduler can bind a pod by itself after it has reported that it finds no node.
      - The time starts again when evictions become possible, when a node opens to the pod, and when the scheduler nominates the pod.
      - No time passes if the scheduler cannot preempt for the pod. Its C(preemptionPolicy) is Never, no pod has a lower
        C(spec.priority), or its profile in O(scheduler_config) has no DefaultPreemption.
    type: str
    default: "2"
  hold:
    description:
      - The way in which the capacity is reserved for the pod until the scheduler binds it.
      - V(taint) requires a toleration of the taint in the pod, and also nominates the pod for the node. V(auto) does both if the pod
        tolerates the taint. Otherwise it only nominates the pod, and only if a single pod with a lower priority and the same scheduler
        must be evicted. Such a rescue begins when no other rescue is under way and no other pod of the cluster ends soon, because the
        scheduler clears nominations. V(none) puts no taint on any node and only nominates the pod, so that another pod may take the
        capacity.
    type: str
    choices: [auto, taint, none]
    default: auto
  hold_taint_key:
    description:
      - The key of the taint, whose effect is C(NoSchedule). Many add-ons tolerate the default, for example CoreDNS.
      - Taints of this key that this module has not set are never changed. They also keep ordinary pods off, so that such a node needs no
        second one.
    type: str
    default: CriticalAddonsOnly
  wait:
    description:
      - Wait until the pods are bound, and release their nodes.
      - With V(false), the run ends when all rescues that are possible now have begun. Their pods have the status V(waiting) and the reason
        V(rescue_begun). Their nodes stay held. The next run of this module, or a rescuer, completes these rescues and releases the nodes.
        No other program does that, so use V(false) only if a further run or a rescuer follows.
    type: bool
    default: true
  wait_timeout:
    description:
      - The maximum time, in seconds or as V(10m), until the pods are bound.
      - A hold ends O(wait_timeout) plus O(evict_timeout) after it was placed. Then the next run, or a rescuer, releases the node.
    type: str
    default: "600"
    aliases: [scheduled_timeout]
  evict_timeout:
    description:
      - The time, in seconds or as V(2m), for which an eviction that a PodDisruptionBudget or the API server refuses is repeated. After it
        the next node is tried.
    type: str
    default: "120"
  max_attempts:
    description:
      - The maximum number of failed rescues in a row for one owner. Then no further rescue begins. Between two rescues the wait
        doubles, from 30 seconds to an hour. The count starts again after a rescue whose pod keeps its node for 10 minutes, and after a
        week without a rescue. A rescue whose pod loses its node sooner counts as failed.
      - The count of each owner is in the ConfigMap C(kube-scheduling-rescue) in C(kube-system). Without the entry it starts at 0.
    type: int
    default: 3
  scheduler_config:
    description:
      - The KubeSchedulerConfigurations of the schedulers, as the O(onprem.kube_scheduling.k8s_spread_check#module:scheduler_config)
        of the check. The scheduler of the role P(onprem.kube_scheduling.extended_scheduler#role) needs an entry, too.
      - A profile that is in no entry is assumed to have the default plugins.
    type: list
    elements: str
notes:
  - C(docs/rescue.md) has the roles that it needs.
  - All times are of the API server's clock.
seealso:
  - module: onprem.kube_scheduling.k8s_spread_check
  - name: Rescuing critical add-ons
    description: The guide with the pods that are rescued, the choice of victims and the permissions.
    link: https://onprem.github.io/kube_scheduling/docs/rescue.html
  - name: Concepts
    description: A rescue as a timeline, with a picture.
    link: https://onprem.github.io/kube_scheduling/docs/concepts.html#a-rescue-as-a-timeline
"""

EXAMPLES = r"""
- name: Free capacity for critical pods of kube-system
  onprem.kube_scheduling.k8s_critical_rescue:

- name: Show the pods that would be evicted
  onprem.kube_scheduling.k8s_critical_rescue:
  check_mode: true
  register: plan

- name: Rescue one pod of a DaemonSet, and allow to evict pods of the same priority
  onprem.kube_scheduling.k8s_critical_rescue:
    name: calico-node-7xk2p
    allow_equal_priority: true

- name: Rescue add-ons of another namespace that have at least this priority
  onprem.kube_scheduling.k8s_critical_rescue:
    namespaces: [monitoring]
    priority_threshold: 1000000
    max_victims: 2

- name: Begin the rescues
  onprem.kube_scheduling.k8s_critical_rescue:
    wait: false

- name: Complete the rescues later, and release the nodes
  onprem.kube_scheduling.k8s_critical_rescue:
    wait_timeout: 5m

- name: Release all nodes before the rescuer is uninstalled
  onprem.kube_scheduling.k8s_critical_rescue:
    state: released
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
pods:
  description: The critical pods without a node, sorted by namespace and name. With O(name), that pod in any case.
  returned: always
  type: list
  elements: dict
  contains:
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
    status:
      description: >-
        V(rescued) (it is bound), V(planned) (check mode), V(waiting) (it needs no eviction, its rescue has begun, or something else must
        end first), V(impossible) (no eviction would help, or none is allowed) or V(failed).
      type: str
    reason:
      description: The code of the reason for the status. C(docs/rescue.md) lists the codes.
      type: str
    message:
      description: The reason as text.
      type: str
    node:
      description: The node that it is bound to, or that is or would be cleared for it.
      type: str
    victims:
      description: The pods that were evicted, or would be.
      type: list
      elements: dict
      contains:
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
        priority:
          description: Its priority.
          type: int
        grace_period:
          description: Seconds that it got.
          type: int
        reason:
          description: V(lower_priority) or V(equal_priority), by its priority compared with that of the critical pod.
          type: str
        message:
          description: The reasons for the selection of this pod, as text.
          type: str
    blockers:
      description: The reasons for which nodes stay closed to the pod even after evictions.
      type: list
      elements: dict
      contains:
        reason:
          description: The code of the reason.
          type: str
        message:
          description: The reason as text.
          type: str
        nodes:
          description: The number of nodes that it closes; 0 if it is not about single nodes.
          type: int
  sample:
    - namespace: kube-system
      name: coredns-5d78c9869d-x2k4p
      status: rescued
      reason: bound
      message: it is bound to node worker-3
      node: worker-3
      victims:
        - namespace: shop
          name: batch-7c9d8-4xv2z
          priority: 0
          grace_period: 30
          reason: lower_priority
          message: its priority 0 is below 2000000000; its replacement fits on no other node now; 5 other ready pods of its controller
      blockers: []
released:
  description: >-
    The nodes that were released because no rescue needs their hold any more; with O(state=released), all held nodes. In check mode the
    nodes that would be released; warnings name the other held nodes.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Its name.
      type: str
    pod:
      description: Namespace and name of the pod that it was held for. Empty if that pod does not exist any more.
      type: str
  sample: [{node: worker-2, pod: kube-system/metrics-server-6d94bc8694-9qkrs}]
skipped_objects:
  description: >-
    Objects of the API server that cannot be decoded. No node with such a pod is cleared, no pod is evicted that such a
    PodDisruptionBudget may select, and such a node is no candidate.
  returned: always
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
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import run_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueRequest, rescue_options


def argument_spec():
    """Return the module's own options."""
    return {
        "state": {"type": "str", "choices": ["rescued", "released"], "default": "rescued"},
        "namespaces": {"type": "list", "elements": "str", "default": ["kube-system"]},
        "name": {"type": "str"},
        "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
        "priority_threshold": {"type": "int", "default": 2000000000},
        "honor_critical_annotation": {"type": "str", "choices": ["kube-system", "all", "none"], "default": "kube-system"},
        "grace_period": {"type": "str", "default": "30"},
        "allow_zero_grace": {"type": "bool", "default": False},
        "max_victims": {"type": "int"},
        "allow_equal_priority": {"type": "bool", "default": False},
        "allow_short_grace": {"type": "bool", "default": False},
        "allow_bare_pods": {"type": "bool", "default": False},
        "allow_local_storage": {"type": "bool", "default": False},
        "respect_windows": {"type": "bool", "default": False},
        "settle_time": {"type": "str", "default": "2"},
        "hold": {"type": "str", "choices": ["auto", "taint", "none"], "default": "auto"},
        "hold_taint_key": {"type": "str", "no_log": False, "default": "CriticalAddonsOnly"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "str", "default": "600", "aliases": ["scheduled_timeout"]},
        "evict_timeout": {"type": "str", "default": "120"},
        "max_attempts": {"type": "int", "default": 3},
        "scheduler_config": {"type": "list", "elements": "str"},
    }


def execute(module, result):
    """Rescue critical pods, or release held nodes."""
    given = module.params
    result.update(pods=[], released=[], skipped_objects=[])
    request = RescueRequest(
        rescue_options(given),
        name=given["name"] or "",
        label_selectors=tuple(given["label_selectors"] or ()),
        state=given["state"],
        wait=given["wait"],
        dry_run=module.check_mode,
    )
    outcome = run_rescue(connect(module, name="k8s_critical_rescue"), request)
    result.update(rescue_result(outcome, named=bool(given["name"]), diff=module._diff))
    for warning in outcome.warnings:
        module.warn(warning)


def main():
    """Run the module."""
    run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
