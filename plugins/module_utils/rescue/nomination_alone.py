# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Holds that consist of a nomination alone, for pods that do not tolerate the taint of a hold: the victims, and the time to evict them.

A nomination does not hold capacity that becomes free in parts, or that becomes free after a failed attempt. Each end of a pod in the
cluster makes the scheduler try the pod. After a failed attempt it clears the nomination. So a plan has one victim, which is evicted while
no other pod ends. ``operations/rescue/nomination_alone.py`` has the order of such rescues and the renewal of their nominations.

On 300 random clusters with other pods that arrive and end, 383 of 471 critical pods without the toleration were bound, and 13 of 382
cleared nodes were lost. Without the queue and the renewal (``hold: none``), 448 were bound, with 200 of 644 evictions without effect. A
refusal binds none.

Two other ways are not used. A program could add the toleration to the pod, but the verb patch on pods of kube-system can replace images. A
taint without a toleration could be removed when the victim has ended, but a program that is killed before leaves the pod without a node.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..model.api.pod import Pod
from .options import RescueOptions
from .plan import BY_NOMINATION, Choice, RescuePlan, Victim
from .plan_reasons import planned, pod_names, waiting

OTHERS_TERMINATING = "others_terminating"


def can_be_held(victims: t.Sequence[Victim], pod: Pod) -> bool:
    """Return whether a nomination of the pod can hold the capacity of these victims."""
    return len(victims) <= 1 and all(_respects_nomination(victim.pod, pod) for victim in victims)


def unsuitable_victims(pods: Iterable[Pod], pod: Pod) -> Iterator[str]:
    """Return the uids of the running pods whose capacity a nomination of the pod cannot hold."""
    return (other.metadata.uid for other in pods if other.spec.node_name and not _respects_nomination(other, pod))


def with_one_victim(options: RescueOptions) -> RescueOptions:
    """Return the options for a plan with at most one victim."""
    return replace(options, max_victims=1 if options.max_victims is None else min(1, options.max_victims))


def single_victim_plan(pod: Pod, choice: Choice, ending: t.Sequence[Pod], note: str) -> RescuePlan:
    """Return the plan for a choice with one victim. ``ending``: the pods of the cluster that must end first."""
    if ending:
        return waiting(pod, OTHERS_TERMINATING, _ending_first_text(ending, choice.node), next_node=choice.node)
    return planned(pod, choice, note, hold_method=BY_NOMINATION)


def _respects_nomination(victim: Pod, pod: Pod) -> bool:
    """Return whether the pod that replaces the victim must respect a nomination of the pod.

    Its ``spec.priority`` must be lower, because the scheduler does not use the annotation that makes a pod critical. It must have the same
    scheduler, because a scheduler knows only the nominations of its own pods.
    """
    return (victim.spec.priority or 0) < (pod.spec.priority or 0) and victim.spec.scheduler_name == pod.spec.scheduler_name


def _ending_first_text(ending: t.Sequence[Pod], node_name: str) -> str:
    """Return why no eviction on the node is requested before these terminating pods have ended."""
    more = f" and {len(ending) - 1} other pods" if len(ending) > 1 else ""
    return (
        f"{pod_names(ending[:1])}{more} must end first: only the nomination would reserve the capacity of node {node_name}, and the "
        "scheduler can clear it when a pod ends. A pod that tolerates the taint of the hold does not wait for this"
    )
