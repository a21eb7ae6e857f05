# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod of a node as the search for victims sees it, and how important the pod is that needs the capacity."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...scheduler.node_info import PodLoad


class Preemptor(t.NamedTuple):
    """How a pod compares with those that run, which decides about most of them whoever it is.

    ``spec_priority``: what the scheduler goes by; ``priority`` also counts the annotation that makes a pod critical.
    """

    priority: int
    spec_priority: int
    allow_equal_priority: bool


class NodePod(t.NamedTuple):
    """A pod of a node. ``fixed_violation``: why it may not be evicted whatever the options say; ``options_violation``: why not by these.

    ``owner``: uid of its controller, empty where it has none. ``age``: minus the time at which it was created. ``in_gang``, ``in_job`` and
    ``mounts_claims``: what may tie it to where it is. ``budget_status_key``: as of ``pdb_ledger.budget_status_key``.
    """

    pod: Pod
    load: PodLoad
    priority: int
    protected: bool
    fixed_violation: t.Optional[Reason]
    options_violation: t.Optional[Reason]
    owner: str
    ready: bool
    age: int
    name: tuple[str, str]
    in_gang: bool
    in_job: bool
    mounts_claims: bool
    budget_status_key: Hashable
