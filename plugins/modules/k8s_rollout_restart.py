#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_rollout_restart
short_description: Restart Deployments and StatefulSets, or evict single pods, to spread their replicas
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Restarts Deployments and StatefulSets as C(kubectl rollout restart) does, waits by the rules of C(kubectl rollout status), and
    then checks whether the replicas are spread better than before.
  - Or evicts single surplus pods, one at a time, see O(strategy).
  - Remembers the outcome in the annotation C(kube-scheduling.onprem/last-outcome) of the workload, so that the next run, also from
    another machine, keeps the cooldown, backs off after restarts that made no progress, and stops after O(max_attempts).
  - Keeps PodDisruptionBudgets, which rollouts bypass. Refuses a restart during which the number of available pods may be lower than a
    budget requires, or may be 0.
  - Refuses workloads with containers that cannot start, and without a ready replica. Stops waiting for a rollout whose new pods
    cannot start. The reason has the container's message.
  - Refuses workloads outside of their maintenance window, which is the annotation C(kube-scheduling.onprem/window) of the workload or of
    its namespace, such as C(Mon-Fri 22:00-05:00 Europe/Berlin). An annotation that cannot be read protects the workload. The host of the
    module needs time zone data, from its operating system or from the Python package tzdata. C(docs/rebalance.md) has the syntax.
  - Can be interrupted at any time. The next run checks the result and does not restart again.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  diff_mode:
    support: full
    details:
      - Shows the annotation and the spread constraints of the pod template that a restart changes, the pods by node before and after the
        evictions, and the outcome that is recorded for the restart or the evictions of an earlier run.
  idempotent:
    description: A second run with the same options changes nothing.
    support: partial
    details:
      - With O(only_if_helps=true) a workload that is well spread is not moved again. With O(name) and without O(cooldown) every run
        restarts the workload.
options:
  kind:
    description: The kind of the workload O(name).
    type: str
    choices: [Deployment, StatefulSet]
  namespace:
    description: The namespace of the workload O(name).
    type: str
  name:
    description:
      - The workload to restart. Needs O(kind) and O(namespace).
      - If a workload named here is refused, does not exist or fails, the task fails.
    type: str
  check:
    description:
      - The registered result of M(onprem.kube_scheduling.k8s_spread_check). Mutually exclusive with O(name) and O(workloads).
      - The workloads are its RV(onprem.kube_scheduling.k8s_spread_check#module:restartable) with O(strategy=rollout) and
        O(spread_constraint=keep), otherwise its RV(onprem.kube_scheduling.k8s_spread_check#module:uneven). Unless O(only_if_helps=false),
        its RV(onprem.kube_scheduling.k8s_spread_check#module:interrupted) are included, so that the outcome of an interrupted run is
        recorded.
      - The defaults of O(topology_keys), O(max_skew) and O(scheduler_config) are those of the check.
      - The workloads are checked once more before they are restarted. Workloads that are refused or do not exist any more do not fail the
        task.
      - While it works, the run holds the Lease C(kube-system/kube-scheduling-rebalance). The limits then hold for the whole cluster, also
        if a job scheduler, the program C(rebalancer) and a person start runs at the same time. If another run holds it, nothing is done.
        Each workload is V(skipped) with the reason V(another_run), and the message names the holder. If the Lease is lost during the run,
        no other workload is begun (V(lease_lost)), and the next run continues. Check mode needs no Lease. Without the permissions for the
        Lease, the run has a warning, and its limits do not include other runs.
    type: raw
  workloads:
    description:
      - The workloads to restart. Mutually exclusive with O(name) and O(check).
      - They are checked once more before they are restarted. Entries that are refused or do not exist any more do not fail the task.
    type: list
    elements: dict
    suboptions:
      kind:
        description: Its kind.
        type: str
        choices: [Deployment, StatefulSet]
        required: true
      namespace:
        description: Its namespace.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
  strategy:
    description:
      - The way in which the replicas are moved.
      - V(rollout) restarts the whole workload by its own update strategy.
      - V(evict_surplus) evicts one pod at a time, only pods above the fair share of their domain, and only if the scheduler would place the
        replacement in a domain with fewer replicas. With O(only_if_helps=false), a feasible node in such a domain is sufficient. It waits
        until the replacement is available, checks again, and decides on the next eviction. With several O(topology_keys), the key listed
        first has precedence. It stops when no replica can move to a better domain, or when a replacement is scheduled to a domain where it
        improves nothing. The API server keeps PodDisruptionBudgets. An eviction that a budget does not allow is not requested. If a budget
        may allow it soon, the run waits for all such budgets once, after all other work. V(evict_surplus) also works for paused
        Deployments, for Deployments with the strategy V(Recreate), and for StatefulSets with V(OnDelete).
      - V(auto) takes V(rollout) for collapsed workloads and V(evict_surplus) for the others. Old pods count during a rollout, so a
        rollout often ends uneven, and skewed workloads would be restarted again and again.
      - If the rollout of a collapsed workload does not help, or is refused for a reason that concerns only rollouts, such as its update
        strategy, V(auto) evicts single pods. Each eviction must be predicted to help. A window, O(cooldown), O(max_attempts), unhealthy
        pods and a paused Deployment prevent both. This needs O(only_if_helps).
      - With O(only_if_helps) and without O(max_skew), V(evict_surplus) moves any pod of the given workloads whose move makes the spread
        more even. With O(check) and without O(max_skew), only collapsed workloads are given. V(auto) moves only pods of collapsed or skewed
        workloads.
    type: str
    choices: [rollout, evict_surplus, auto]
    default: rollout
  only_if_helps:
    description:
      - Restart only workloads that are collapsed or skewed, and only if a restart would spread them better. For evictions see O(strategy).
        With V(false), the prediction is not used.
      - By default false with O(name), otherwise true.
    type: bool
  allow_downtime:
    description:
      - Also restart workloads of which no pod may be available during the rollout, or fewer than a PodDisruptionBudget requires.
      - Evictions always keep the budgets. With this option they may evict the last available pod.
    type: bool
    default: false
  cooldown:
    description:
      - The time between two restarts of one workload, or between two runs that evict its pods, in seconds or as V(30s), V(10m), V(1h).
        It doubles with each attempt that made no progress.
      - By default 0 with O(name), otherwise 600. Ten minutes is the default progress deadline of a Deployment, so one restart has ended
        before the next.
    type: str
  max_attempts:
    description:
      - The number of restarts that made no progress. After that the workload is not restarted until it or its eligible nodes change.
        After a change of the nodes, one more restart is allowed. It does not shorten the doubled O(cooldown).
      - A restart, or a run with evictions, makes progress if its spread is better than the spread before it and after all earlier ones. So
        a run that ends at a limit does not count, but one whose improvement another client undoes each time counts. An end that is well
        spread starts the count again. If another client undoes that, too, only O(cooldown) limits the restarts.
    type: int
    default: 3
  max_parallel:
    description: The number of workloads that are restarted at the same time. It has no effect without O(wait).
    type: int
    default: 1
  max_workloads:
    description:
      - The number of workloads that one run restarts or evicts pods of, at least 1. Unset, there is no limit.
      - A workload beyond a limit is V(skipped) with the reason V(limit_reached); the message names the limit. A limit counts what the run
        has done, in check mode what it would do. An earlier restart whose result is only checked does not count.
      - The namespaces take turns, one workload at a time, beginning with the namespace whose last move is the oldest.
    type: int
  max_evictions:
    description:
      - The number of pods that one run evicts, at least 1. Unset, there is no limit. Restarts do not count.
      - A workload has all its evictions in one turn. Set O(max_evictions_per_namespace), too, so that one namespace does not use this up.
    type: int
  max_evictions_per_node:
    description: The number of pods that one run evicts from one node, at least 1. Unset, there is no limit. Restarts do not count.
    type: int
  max_evictions_per_namespace:
    description: The number of pods that one run evicts in one namespace, at least 1. Unset, there is no limit. Restarts do not count.
    type: int
  wait:
    description:
      - Wait for the end of the rollout. With V(false), the outcome stays V(pending) until the next run checks it.
      - With V(false) and O(strategy=evict_surplus), one pod is evicted, and the next run continues.
    type: bool
    default: true
  wait_timeout:
    description:
      - The time to wait for one rollout before it counts as failed, in seconds or as V(30s), V(10m), V(1h). At least 1 second.
      - With O(strategy=evict_surplus), the time to wait for the replacement of an evicted pod.
      - A workload that cannot end in this time, by C(minReadySeconds) and the initial delays of its probes, is refused (V(too_slow)).
      - If one namespace has taken six times this time of a run, multiplied by O(max_parallel), and at least 10 minutes, its other workloads
        are V(skipped) with the reason V(limit_reached).
      - It is also the time for which one run waits, for all workloads together, until PodDisruptionBudgets allow an eviction, until
        terminating pods have ended on which a decision depends, and until API servers and webhooks that are not available answer.
    type: str
    default: '600'
  wait_sleep:
    description:
      - The time between two reads of a workload, in seconds or as V(30s), V(5m). At least 1 second. It is used only if the credentials do
        not allow the verb watch.
    type: str
    default: '5'
  verify_spread:
    description:
      - Check the spread after the rollout. With V(false), the outcome stays V(pending), and the restart counts for O(max_attempts) until
        a later run finds progress.
    type: bool
    default: true
  topology_keys:
    description:
      - The node labels whose values are the domains that replicas are spread over. Each must be on some node.
      - With several keys the worst verdict counts. Between equal verdicts, the key listed first counts.
      - By default those of O(check), otherwise V([kubernetes.io/hostname]).
    type: list
    elements: str
  max_skew:
    description:
      - The largest difference of replicas between two eligible domains with which a workload still counts as even. At least 1.
      - By default the value of O(check). If it is unset there too, only workloads whose replicas are all in one domain are moved.
    type: int
  spread_constraint:
    description:
      - The topology spread constraints of the pod template. V(keep) does not change them.
      - V(add) adds a constraint for each of the O(topology_keys) that the workload has no constraint for, in the same patch as the restart.
        The scheduler then prefers to spread the pods, in this and in later rollouts. That is no guarantee. With O(only_if_helps), a
        workload is restarted only if the restart with the constraints is predicted to help.
      - The constraint has C(maxSkew=1) and C(whenUnsatisfiable=ScheduleAnyway), so it keeps no pod from running. Its selector is the one of
        the workload. C(matchLabelKeys) has the label of the revision, so only the new pods count during a rollout. An API server before
        Kubernetes 1.27 does not store C(matchLabelKeys). The constraint is then added without it, and the module warns.
      - A pod with any constraint has no longer the default constraints of the scheduler. If the workload has no constraint at all, the
        constraints are therefore also for C(kubernetes.io/hostname) and C(topology.kubernetes.io/zone), if all eligible nodes have that
        label. If its profile in O(scheduler_config) has C(defaultConstraints) with C(defaultingType=List), these are added
        instead of the two keys.
      - With O(check), the workloads are those in RV(onprem.kube_scheduling.k8s_spread_check#module:uneven), because the check has predicted
        restarts without these constraints. They are checked once more with them.
      - O(strategy=evict_surplus) does not change the pod template, so V(add) is an error with it. With O(strategy=auto), only rollouts add
        constraints.
    type: str
    choices: [keep, add]
    default: keep
  force_managed:
    description:
      - Also add constraints to workloads of Argo CD, Flux or Helm. Without this option, such a workload is refused with the reason
        V(managed), because the next sync may remove the constraint. It is not restarted without the constraint either. The message and
        RV(workloads[].patch) have the patch for the source of the workload.
      - With this option, a sync that removes the constraint is a second rollout, which this module does not control.
      - They are found by the annotation C(argocd.argoproj.io/tracking-id), by the annotation or label C(argocd.argoproj.io/instance), by
        the labels C(kustomize.toolkit.fluxcd.io/name) and C(helm.toolkit.fluxcd.io/name), and by the annotation
        C(meta.helm.sh/release-name). Flux 1 is found by the annotations C(fluxcd.io/sync-checksum) and C(helm.fluxcd.io/antecedent), and by
        the label C(fluxcd.io/sync-gc-mark).
      - They are also found by the managers C(argocd-controller), C(argocd-application-controller), C(kustomize-controller) and
        C(helm-controller) in C(managedFields), except for entries of a subresource such as the status.
      - It has no effect without O(spread_constraint=add).
    type: bool
    default: false
  scheduler_config:
    description:
      - The KubeSchedulerConfigurations of the schedulers, as the O(onprem.kube_scheduling.k8s_spread_check#module:scheduler_config)
        of the check. By default the value of O(check).
    type: list
    elements: str
notes:
  - Needs the verbs of M(onprem.kube_scheduling.k8s_spread_check), the verbs get and patch on deployments and statefulsets, and the verb
    create on events. Without the right to create events, the restart is done with a warning. C(docs/rebalance.md) has the roles.
  - With the verb watch on deployments and statefulsets, the module watches a workload while it waits. Otherwise see O(wait_sleep).
  - With the verb get on namespaces, the maintenance window of a namespace is read again before each write. Otherwise it counts as it was
    when the workload was checked.
  - With O(check) also needs, in the namespace kube-system, the verbs get, create and patch on leases and configmaps. The ConfigMap shows
    that a run has held a Lease that was deleted.
  - Evictions also need the verb create on pods/eviction. With the verb watch on pods, the module watches them while it waits.
  - All times are of the API server's clock.
seealso:
  - module: onprem.kube_scheduling.k8s_spread_check
  - name: Rebalancing
    description: The guide with the reasons of the actions, the strategies and the maintenance windows.
    link: https://onprem.github.io/kube_scheduling/docs/rebalance.html
  - name: Troubleshooting
    description: The messages, and what to do.
    link: https://onprem.github.io/kube_scheduling/docs/troubleshooting.html
"""

EXAMPLES = r"""
- name: Find collapsed workloads
  onprem.kube_scheduling.k8s_spread_check:
  register: spread

- name: Restart the workloads that a restart would spread, two at a time
  onprem.kube_scheduling.k8s_rollout_restart:
    check: "{{ spread }}"
    max_parallel: 2

- name: Restart one Deployment, also if it is well spread
  onprem.kube_scheduling.k8s_rollout_restart:
    kind: Deployment
    namespace: shop
    name: web

- name: Even out a StatefulSet over zones and nodes, one pod at a time
  onprem.kube_scheduling.k8s_rollout_restart:
    kind: StatefulSet
    namespace: shop
    name: queue
    strategy: evict_surplus
    topology_keys: [topology.kubernetes.io/zone, kubernetes.io/hostname]

- name: Find collapsed and skewed workloads
  onprem.kube_scheduling.k8s_spread_check:
    max_skew: 1
  register: spread

- name: Restart collapsed workloads, and evict single surplus pods of skewed workloads
  onprem.kube_scheduling.k8s_rollout_restart:
    check: "{{ spread }}"
    strategy: auto

- name: Restart the uneven workloads, and make their spread last
  onprem.kube_scheduling.k8s_rollout_restart:
    check: "{{ spread }}"
    spread_constraint: add
  register: restart

- name: Show the patches for the workloads of Argo CD, Flux and Helm
  ansible.builtin.debug:
    msg: "{{ restart.workloads | selectattr('reason', '==', 'managed') | map(attribute='patch') }}"

- name: Restart a Deployment of strategy Recreate in its maintenance window
  onprem.kube_scheduling.k8s_rollout_restart:
    kind: Deployment
    namespace: shop
    name: legacy
    allow_downtime: true
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
workloads:
  description: One entry for each workload, in the order given.
  returned: always, also when the task fails
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
    action:
      description:
        - V(restarted), V(evicted), V(skipped), V(refused) or V(failed).
        - In check mode V(would_restart) and V(would_evict) in place of V(restarted) and V(evicted). V(would_restart_if) and
          V(would_evict_if) mean that the run would do this on a condition, see RV(workloads[].condition).
      type: str
    reason:
      description: The code of the reason for the action. C(docs/rebalance.md) lists the codes.
      type: str
    message:
      description: The text of the reason for people.
      type: str
    before:
      description: Replicas by topology key and domain before the restart.
      type: dict
    after:
      description: The same at the check after the restart; empty without one.
      type: dict
    expected:
      description:
        - In check mode the replicas by topology key and domain after the restart or the evictions, in the first simulation.
        - Empty for other actions, and with O(only_if_helps=false) for restarts, which are then not simulated.
      type: dict
    condition:
      description:
        - The results of earlier actions that V(would_restart_if) or V(would_evict_if) needs, such as C(only if Deployment shop/cart
          ends with worker-2=1, worker-3=1), or the PodDisruptionBudget that must allow an eviction within O(wait_timeout). Otherwise empty.
        - The message has it, too.
      type: str
    evicted:
      description:
        - The pods that were evicted, in their order; empty for a rollout.
        - A pod whose eviction had no answer is listed if it was evicted before the end of the run.
        - In check mode the pods that would be evicted, and for each pod a node that the scheduler would choose for its replacement. With
          O(only_if_helps=false) it is a feasible node.
      type: list
      elements: dict
      contains:
        pod:
          description: Name of the evicted pod.
          type: str
        node:
          description: Its node.
          type: str
        replacement:
          description: Name of the pod that replaced it; empty if the run has not observed it.
          type: str
        replacement_node:
          description: The node of that pod.
          type: str
    spread_constraints:
      description:
        - The topology spread constraints that O(spread_constraint=add) has added to the pod template, as the API server has stored them.
        - In check mode those that would be added.
      type: list
      elements: dict
    patch:
      description:
        - The complete strategic merge patch that adds the constraints, also for a workload that is refused as V(managed). Otherwise empty.
        - It can be a file for kustomize or for C(kubectl patch --patch-file).
      type: dict
    outcome:
      description: >-
        The result of the action; V(improved), V(unchanged), V(worse), V(failed), V(pending) (not checked yet), or empty if nothing was
        done. If the outcome of an earlier run is recorded now, the workload counts as changed, also in check
        mode. While that rollout or replacement is in progress, check mode reports V(pending) and no change. Check mode also reports
        V(pending) for a workload that would be moved.
      type: str
    duration:
      description: Seconds from the decision to the end of the rollout or of the last eviction.
      type: int
  sample:
    - kind: Deployment
      namespace: shop
      name: web
      action: restarted
      reason: collapsed
      message: all 3 placed replicas in kubernetes.io/hostname=worker-1, 3 domains are eligible
      before: {kubernetes.io/hostname: {worker-1: 3, worker-2: 0, worker-3: 0}}
      after: {kubernetes.io/hostname: {worker-1: 1, worker-2: 1, worker-3: 1}}
      expected: {}
      condition: ""
      evicted: []
      spread_constraints: []
      patch: {}
      outcome: improved
      duration: 8
    - kind: StatefulSet
      namespace: shop
      name: queue
      action: evicted
      reason: surplus
      message: 3 replicas in kubernetes.io/hostname=worker-1, one of them can move to worker-3 (0)
      before: {kubernetes.io/hostname: {worker-1: 3, worker-2: 1, worker-3: 0}}
      after: {kubernetes.io/hostname: {worker-1: 2, worker-2: 1, worker-3: 1}}
      expected: {}
      condition: ""
      evicted:
        - {pod: queue-2, node: worker-1, replacement: queue-2, replacement_node: worker-3}
      spread_constraints: []
      patch: {}
      outcome: improved
      duration: 6
skipped_objects:
  description: >-
    Objects of the API server that cannot be decoded. Such a workload is refused. A workload is also refused if such a PodDisruptionBudget,
    ResourceQuota or LimitRange may apply to it.
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
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import undecodable_results
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rebalance.leased_restart import run_leased_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import not_begun, restart_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import restart_options
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import named_targets, read_check


def argument_spec():
    """Return the module's own options."""
    kind = {"type": "str", "choices": ["Deployment", "StatefulSet"]}
    return {
        "kind": kind,
        "namespace": {"type": "str"},
        "name": {"type": "str"},
        "workloads": {
            "type": "list",
            "elements": "dict",
            "options": {
                "kind": {**kind, "required": True},
                "namespace": {"type": "str", "required": True},
                "name": {"type": "str", "required": True},
            },
        },
        "check": {"type": "raw"},
        "strategy": {"type": "str", "choices": ["rollout", "evict_surplus", "auto"], "default": "rollout"},
        "only_if_helps": {"type": "bool"},
        "allow_downtime": {"type": "bool", "default": False},
        "cooldown": {"type": "str"},
        "max_attempts": {"type": "int", "default": 3},
        "max_parallel": {"type": "int", "default": 1},
        "max_workloads": {"type": "int"},
        "max_evictions": {"type": "int"},
        "max_evictions_per_node": {"type": "int"},
        "max_evictions_per_namespace": {"type": "int"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "str", "default": "600"},
        "wait_sleep": {"type": "str", "default": "5"},
        "verify_spread": {"type": "bool", "default": True},
        "topology_keys": {"type": "list", "elements": "str", "no_log": False},
        "max_skew": {"type": "int"},
        "spread_constraint": {"type": "str", "choices": ["keep", "add"], "default": "keep"},
        "force_managed": {"type": "bool", "default": False},
        "scheduler_config": {"type": "list", "elements": "str"},
    }


def execute(module, result):
    """Move replicas of the workloads and check the result."""
    given, targets, undecodable = module.params, [], []
    try:
        checked = None if given["check"] is None else read_check(given["check"])
        targets = named_targets(given) if checked is None else []
        options = restart_options(given, checked, dry_run=module.check_mode)
        if checked is not None:
            targets = options.targets(checked)
        api = connect(module, name="k8s_rollout_restart")
        run = run_restart if checked is None else run_leased_restart
        results = run(api, targets, options, undecodable=undecodable) if targets else []
    except (KubeError, OptionError) as error:
        result.update(workloads=not_begun(targets, error), skipped_objects=undecodable_results(undecodable))
        raise
    result.update(restart_result(results, named=given["name"] is not None, diff=module._diff, undecodable=undecodable))
    for warning in result.pop("warnings"):
        module.warn(warning)


def main():
    """Run the module."""
    ways = [("name", "workloads", "check")]
    together = [("kind", "namespace", "name")]
    run_module(argument_spec(), execute, mutually_exclusive=ways, required_one_of=ways, required_together=together)


if __name__ == "__main__":
    main()
