# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A rescue as plain data: the pod, the node, the victims and the hold method; or the reason why there is no plan."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.api.pod import Pod
from ..model.reason import Blocker, Reason

PLANNED, WAITING, IMPOSSIBLE = "planned", "waiting", "impossible"

BY_TAINT = "taint"
BY_NOMINATION = "nomination"


@dataclass(frozen=True)
class Victim:
    """A pod to evict. ``reason``: why this pod is chosen; ``grace_period_s``: its whole seconds to end."""

    pod: Pod
    priority: int
    reason: Reason
    grace_period_s: int


@dataclass(frozen=True)
class Choice:
    """The best node and victims for a pod; the victims with the lowest priority come first."""

    node: str
    victims: tuple[Victim, ...]


@dataclass(frozen=True)
class RescuePlan:
    """The plan for one pod.

    - ``status``: PLANNED (then ``choice`` is set), WAITING (the pod will be bound without evictions, or something else must end first) or
      IMPOSSIBLE (``blockers`` contains the reasons)
    - ``hold_method``: how the node is held for the pod, BY_TAINT or BY_NOMINATION; None if no hold is needed
    - ``expected_node``: the node on which the scheduler is expected to bind a WAITING pod; empty if that is not known
    - ``next_node``: the node on which the evictions for the pod begin later; empty if nothing delays them, and if there are none
    """

    pod: Pod
    status: str
    reason: Reason
    choice: t.Optional[Choice] = None
    hold_method: t.Optional[str] = None
    blockers: tuple[Blocker, ...] = ()
    expected_node: str = ""
    next_node: str = ""


class RescueContext(t.NamedTuple):
    """The facts about a pod in addition to the snapshot.

    - ``scheduler_down``: the reason why its scheduler counts as not running, or None
    - ``excluded_nodes``: nodes that were tried without success
    - ``excluded_victims``: uids of pods whose eviction the server has rejected
    - ``evicted_count``: the number of pods that have been evicted for it already
    - ``note``: text that is appended to the reason
    - ``nominated_by_rescue``: the rescue has nominated the pod itself
    - ``awaits_terminating``: capacity that other terminating pods free soon counts as free. This ends after a time, so that no tenant can
      delay a rescue with one terminating pod after another.
    - ``awaits_others``: terminating pods of others are awaited if only a nomination would hold the capacity. This ends after a time, too.
    - ``awaits_expected``: no evictions on a node that another critical pod is expected to get first. This ends after a time, too.
    - ``nominated_node``: the node for which the pod is nominated; the planner sets it
    """

    scheduler_down: t.Optional[Reason] = None
    excluded_nodes: frozenset[str] = frozenset()
    excluded_victims: frozenset[str] = frozenset()
    evicted_count: int = 0
    note: str = ""
    nominated_by_rescue: bool = False
    awaits_terminating: bool = True
    awaits_others: bool = True
    awaits_expected: bool = True
    nominated_node: str = ""
