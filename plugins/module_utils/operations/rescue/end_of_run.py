# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ends of a run of k8s_critical_rescue. Pure."""

from __future__ import annotations

import typing as t
from enum import Enum


class End(Enum):
    """An end of a run."""

    DONE = "done"
    """Nothing is left to do."""
    BEGUN = "begun"
    """Without ``wait``: every rescue that is possible now has begun. The nodes stay held."""
    TIMED_OUT = "timed_out"
    """The time limit is over, and pods are still waiting."""
    STILL_HELD = "still_held"
    """The time limit is over, and this run could not release a node or record a result."""
    UNREADABLE = "unreadable"
    """The time limit is over, and the state of the pods is not known."""


class RunState(t.NamedTuple):
    """The facts that decide whether a run ends.

    - ``is_over``: the time limit is over
    - ``lease_time_is_over``: the Lease of a killed program has expired
    - ``is_blocked``: the cluster cannot be read, or a write is due without the Lease
    - ``is_unreadable``: the cluster cannot be read, and the state of the pods is not known
    - ``has_unexplained``: a pod still lacks the reasons why no eviction helps
    - ``is_waiting``: a pod is neither bound nor given up
    - ``is_settling``: the scheduler still has its settle time for a waiting pod, or the dry runs of its plan are not complete
    - ``can_begin``: the next step for a waiting pod is possible now
    - ``is_clearing``: a node is being cleared
    - ``must_write``: this run must still release a node or record a result
    - ``has_expired_holds``: another program has left a hold that must be released
    """

    is_over: bool = False
    lease_time_is_over: bool = False
    is_blocked: bool = False
    is_unreadable: bool = False
    has_unexplained: bool = False
    is_waiting: bool = False
    is_settling: bool = False
    can_begin: bool = False
    is_clearing: bool = False
    must_write: bool = False
    has_expired_holds: bool = False


def end_of_run(state: RunState, *, wait: bool = True, dry_run: bool = False) -> t.Optional[End]:
    """Return the end of the run, or None if it continues."""
    if state.is_unreadable and state.is_over:
        return End.UNREADABLE
    if state.has_unexplained and not state.is_over:
        return None
    if state.is_blocked:
        return End.TIMED_OUT if state.is_over else None
    if dry_run:  # a plan waits only for the settle time of the scheduler and for answers to its dry runs
        return None if state.is_settling else End.DONE
    if state.is_waiting and (wait or state.can_begin):
        # A node that is being cleared has its own time limit.
        return End.TIMED_OUT if state.is_over and not state.is_clearing else None
    if state.must_write:
        return End.STILL_HELD if state.is_over else None
    # Another active program releases its holds by itself.
    if state.has_expired_holds and not state.lease_time_is_over:
        return None
    return End.BEGUN if state.is_waiting else End.DONE
