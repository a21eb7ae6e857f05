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
class Judgement:
    """What is to be done for one pod.

    ``status``: PLANNED (then ``choice`` is there), WAITING (it will be bound without evictions, or something else has to end first) or
    IMPOSSIBLE (``blockers`` say what stands in the way). ``kept_by``: how the room is kept for it, BY_TAINT or BY_NOMINATION; None where
    nothing is to be done for that.
    """

    pod: Pod
    status: str
    reason: Reason
    choice: t.Optional[Choice] = None
    kept_by: t.Optional[str] = None
    blockers: tuple[Blocker, ...] = ()
