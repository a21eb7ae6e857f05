# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A rescue as plain data: the pod, the node, what has to leave, and what keeps the room; or why there is none."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.api.pod import Pod
from ..model.reason import Reason

PLANNED, WAITING, IMPOSSIBLE = "planned", "waiting", "impossible"

BY_TAINT = "taint"
BY_NOMINATION = "nomination"


@dataclass(frozen=True)
class Victim:
    """A pod that has to leave. ``reason``: why it and no other; ``grace_period``: whole seconds that it gets."""

    pod: Pod
    priority: int
    reason: Reason
    grace_period: int


class Blocker(t.NamedTuple):
    """What stands in the way on so many nodes."""

    reason: Reason
    nodes: int


@dataclass(frozen=True)
class Choice:
    """The node and the victims that are best for a pod; those that are least important come first."""

    node: str
    victims: tuple[Victim, ...]


@dataclass(frozen=True)
class RescuePlan:
    """What is to be done for one pod.

    ``status``: PLANNED (then ``choice`` is there), WAITING (it will be bound without evictions, or something else has to end first) or
    IMPOSSIBLE (``blockers`` say what stands in the way). ``hold_method``: how the room is kept for it, BY_TAINT or BY_NOMINATION; None
    where nothing is to be done for that.
    """

    pod: Pod
    status: str
    reason: Reason
    choice: t.Optional[Choice] = None
    hold_method: t.Optional[str] = None
    blockers: tuple[Blocker, ...] = ()


class RescueContext(t.NamedTuple):
    """What is known of a pod beside the snapshot.

    ``scheduler_down``: why its scheduler counts as not running, or None. ``excluded_nodes``: nodes that were tried in vain.
    ``excluded_victims``: uids of pods whose eviction the server has refused. ``evicted_count``: how many pods have been evicted for it
    already. ``note``: what else the reason has to say. ``nominated_by_rescue``: the rescue has nominated the pod itself.
    ``awaits_terminating``: capacity that other terminating pods free soon counts as free. It ends, so that nobody can delay a rescue by one
    terminating pod after the other. ``awaits_others``: terminating pods of others are awaited where a nomination alone would keep the
    capacity. That ends, too. ``nominated_node``: the node for which the pod is nominated; the planner fills it in.
    """

    scheduler_down: t.Optional[Reason] = None
    excluded_nodes: frozenset[str] = frozenset()
    excluded_victims: frozenset[str] = frozenset()
    evicted_count: int = 0
    note: str = ""
    nominated_by_rescue: bool = False
    awaits_terminating: bool = True
    awaits_others: bool = True
    nominated_node: str = ""
