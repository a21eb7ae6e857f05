# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod of a node with the data for the search for victims, and the priorities of the pod that needs the capacity."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.snapshot import OwnerKey
from ...scheduler.node_info import PodLoad


class Preemptor(t.NamedTuple):
    """The priorities of the pod that needs the capacity. They decide about most running pods.

    ``spec_priority``: the priority that the scheduler compares. ``priority``: the same, but at least the priority that the critical
    annotation gives.
    """

    priority: int
    spec_priority: int
    allow_equal_priority: bool


class NodePod(t.NamedTuple):
    """A pod of a node.

    ``fixed_violation``: the reason that forbids its eviction and that no option changes. ``options_violation``: the reason why these
    options do not allow its eviction. ``owner``: None if it has no controller. ``age``: minus the time at which it was
    created. ``may_be_last``: it may be evicted last (``VictimCosts.is_evicted_last``).
    ``budget_status_key``: the result of the function of that name in ``model/budgets/ledger.py``.
    """

    pod: Pod
    load: PodLoad
    priority: int
    protected: bool
    fixed_violation: t.Optional[Reason]
    options_violation: t.Optional[Reason]
    owner: t.Optional[OwnerKey]
    ready: bool
    age: int
    name: tuple[str, str]
    may_be_last: bool
    budget_status_key: Hashable
