#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_critical_rescue
short_description: Make room for critical pods that the scheduler finds no node for
version_added: 0.1.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Finds critical pods (DNS, network, metrics, DaemonSets of kube-system) that are pending because all nodes are full, and evicts the
    fewest and least important pods that make room for them, never against a PodDisruptionBudget.
  - Keeps the room by a taint with an owner mark until the pod is bound, and takes exactly that taint off again, whatever happens. What a
    run that was killed has left behind is taken over or taken off by the next one.
  - Waits for O(settle_time) first, because the preemption of kube-scheduler is faster. It acts where that does not help, such as among
    pods of equal priority, for pods that are critical only by annotation, with a profile without preemption, or where the scheduler's
    victims hang. Where the scheduler preempts, it does not keep PodDisruptionBudgets, and nothing outside it can make it;
    C(docs/rescue.md) has the scheduler profile that leaves all of it to this module.
  - Evicts nothing where that would not help. Nodes that are closed for another reason than lack of room, a scheduler that is not running
    and a preemption that is under way are reported instead.
  - Only one program makes room at a time. The Lease C(kube-scheduling-rescue) in C(kube-system) decides.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
options:
  state:
    description:
      - V(rescued) makes room for critical pods, and gives back nodes that are held in vain.
      - V(released) makes no room, and gives back every node that is held, also where a pod is still waited for. Only while no rescuer has
        the Lease; otherwise the task fails and names the holder.
    type: str
    choices: [rescued, released]
    default: rescued
  namespaces:
    description: The namespaces whose pods are rescued. If one does not exist nothing is done, unless O(state=released).
    type: list
    elements: str
    default: [kube-system]
  name:
    description: Only the pod of this name. If it cannot be rescued the task fails; otherwise that is only reported.
    type: str
  label_selector:
    description: Only pods with these labels, in the syntax of C(kubectl get --selector), which the server checks.
    type: str
    default: ""
  priority_threshold:
    description: From this priority on a pod is critical. The default is that of the class C(system-cluster-critical).
    type: int
    default: 2000000000
  honor_critical_annotation:
    description:
      - Where a pod with the annotation C(scheduler.alpha.kubernetes.io/critical-pod) and an empty value is critical, as with priority
        2000000000. Kubernetes itself has ignored the annotation since 1.16.
      - V(kube-system) honors it in that namespace only, V(all) in all of O(namespaces), V(none) nowhere.
      - With V(all) everyone who may create pods in one of these namespaces can have pods evicted in the whole cluster.
    type: str
    choices: [kube-system, all, none]
    default: kube-system
  grace_period:
    description:
      - Seconds that an evicted pod gets at most; it gets its own grace period if that is shorter.
      - Pods whose own grace period is longer are not evicted without O(allow_short_grace). Most pods have 30.
      - At least 1; 0 only with O(force).
    type: int
    default: 10
  force:
    description: Allow a O(grace_period) of 0, which ends pods without warning. Pods of StatefulSets still get 1.
    type: bool
    default: false
  max_victims:
    description: The most pods that are evicted for one critical pod. By default as many as it takes, and none more.
    type: int
  allow_equal_priority:
    description: Allow to evict pods of the same priority, and critical ones, if they are not of the same owner.
    type: bool
    default: false
  allow_short_grace:
    description: Allow to evict pods whose own grace period is longer than O(grace_period), and give them only that.
    type: bool
    default: false
  allow_bare_pods:
    description: Allow to evict pods without a controller, which nothing brings back.
    type: bool
    default: false
  allow_local_storage:
    description: Allow to evict pods with V(emptyDir) or V(hostPath) volumes, whose content stays behind or is lost.
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
      - Seconds that the scheduler gets to place a pod by itself, from when it has reported that it finds no node.
      - The time begins again when evictions have become possible, when a node opens to the pod, and when the scheduler nominates the pod.
    type: int
    default: 2
  hold:
    description:
      - How the room is kept for the pod until the scheduler comes round.
      - V(taint) requires a toleration of the taint in the pod, and also nominates the pod for the node. V(auto) does both where the pod
        tolerates the taint. Otherwise it only nominates the pod, and only where a single pod with a lower priority and the same scheduler
        has to be evicted. Such a rescue begins when no other rescue is under way and no other pod of the cluster ends soon, because the
        scheduler clears nominations. V(none) puts no taint on any node and only nominates the pod, so that another pod may take the
        capacity.
    type: str
    choices: [auto, taint, none]
    default: auto
  hold_taint_key:
    description:
      - The key of the taint, whose effect is C(NoSchedule). Many add-ons tolerate the default, CoreDNS among them.
      - Taints of this key that somebody else has set are never touched. They keep ordinary pods off as well, so that such a node needs no
        second one.
    type: str
    default: CriticalAddonsOnly
  scheduled_timeout:
    description: Seconds to wait until a pod is bound.
    type: int
    default: 600
  evict_timeout:
    description: Seconds for which an eviction that a budget or the server turns down is asked for again, before the next node is tried.
    type: int
    default: 120
  max_attempts:
    description:
      - Rescues in a row for one owner that came to nothing, after which no more are made. Between them the time doubles, from 30 seconds to
        an hour. A rescue whose pod keeps its node for 10 minutes starts the count again, as does a week without one. A rescue whose
        pod loses its node sooner counts as one that came to nothing.
      - The count is kept for each owner in the ConfigMap C(kube-scheduling-rescue) in C(kube-system). Without the entry it starts anew.
    type: int
    default: 3
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
  - msgspec >= 0.19
  - PyYAML >= 6.0
  - urllib3 >= 2.0.0
notes:
  - The Python library kubernetes is imported only for a kubeconfig whose user has an exec plugin or an auth provider.
  - C(docs/rescue.md) has the roles that it needs.
  - Times are those of the API server's clock.
seealso:
  - module: onprem.kube_scheduling.k8s_spread_check
"""

EXAMPLES = r"""
- name: Make room for critical pods of kube-system
  onprem.kube_scheduling.k8s_critical_rescue:
    grace_period: 30    # most pods have 30 seconds; with less they are left alone

- name: See what would be evicted
  onprem.kube_scheduling.k8s_critical_rescue:
    grace_period: 30
  check_mode: true
  register: plan

- name: One pod of a DaemonSet, at the cost of pods that are as important
  onprem.kube_scheduling.k8s_critical_rescue:
    name: calico-node-7xk2p
    allow_equal_priority: true

- name: Add-ons of another namespace, from a priority of their own
  onprem.kube_scheduling.k8s_critical_rescue:
    namespaces: [monitoring]
    priority_threshold: 1000000
    max_victims: 2

- name: Give back all nodes before the rescuer is uninstalled
  onprem.kube_scheduling.k8s_critical_rescue:
    state: released
"""

RETURN = r"""
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
        V(rescued) (it is bound), V(planned) (check mode), V(waiting) (it needs no eviction, or something else has to end first),
        V(impossible) (no eviction would help, or none is allowed) or V(failed).
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
      description: Namespace and name of the pod that it was held for.
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

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, fail, make_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_error import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import result_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import run_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueRequest, rescue_options


def argument_spec():
    """Return the module's own options."""
    return {
        "state": {"type": "str", "choices": ["rescued", "released"], "default": "rescued"},
        "namespaces": {"type": "list", "elements": "str", "default": ["kube-system"]},
        "name": {"type": "str"},
        "label_selector": {"type": "str", "default": ""},
        "priority_threshold": {"type": "int", "default": 2000000000},
        "honor_critical_annotation": {"type": "str", "choices": ["kube-system", "all", "none"], "default": "kube-system"},
        "grace_period": {"type": "int", "default": 10},
        "force": {"type": "bool", "default": False},
        "max_victims": {"type": "int"},
        "allow_equal_priority": {"type": "bool", "default": False},
        "allow_short_grace": {"type": "bool", "default": False},
        "allow_bare_pods": {"type": "bool", "default": False},
        "allow_local_storage": {"type": "bool", "default": False},
        "respect_windows": {"type": "bool", "default": False},
        "settle_time": {"type": "int", "default": 2},
        "hold": {"type": "str", "choices": ["auto", "taint", "none"], "default": "auto"},
        "hold_taint_key": {"type": "str", "no_log": False, "default": "CriticalAddonsOnly"},
        "scheduled_timeout": {"type": "int", "default": 600},
        "evict_timeout": {"type": "int", "default": 120},
        "max_attempts": {"type": "int", "default": 3},
    }


def main():
    """Run the module: rescue critical pods, or release held nodes."""
    module = make_module(argument_spec())
    name = module.params["name"] or ""
    try:
        request = RescueRequest(
            rescue_options(module.params),
            name=name,
            label_selector=module.params["label_selector"],
            state=module.params["state"],
            dry_run=module.check_mode,
        )
        outcome = run_rescue(connect(module, name="k8s_critical_rescue"), request)
    except (KubeError, OptionError) as error:
        fail(module, error, changed=False, pods=[], released=[], skipped_objects=[])
    result = result_of(outcome.tasks, outcome.released, named=bool(name), undecodable=outcome.undecodable)
    for warning in outcome.warnings:
        module.warn(warning)
    if outcome.error is not None:
        result.update(failed=True, msg=str(outcome.error))
    if result["failed"]:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
