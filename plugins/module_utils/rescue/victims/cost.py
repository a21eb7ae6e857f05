# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of a set of victims: the order by which one set, on whatever node, is better than another."""

from __future__ import annotations

import typing as t

PRIORITY_OFFSET = 2**31
"""Makes every priority a positive weight, so that more victims never weigh less (kubernetes ``pkg/scheduler/framework/preemption``)."""

NO_VICTIM = -PRIORITY_OFFSET - 1
"""Stands for the highest priority where there is no victim."""


class Cost(t.NamedTuple):
    """A cost; the smaller one is better, each field only breaking ties of those before it.

    ``highest``: the highest priority of a victim. ``weight``: the sum of priority + 2^31. ``number``: of victims. ``node_bound``: victims
    that are tied to their node by a volume, belong to a gang, or to a Job whose rules do not ignore disruptions. ``unreschedulable``:
    victims whose replacement fits on no other node now. ``remaining_ready``: minus the fewest ready pods that an owner of a victim keeps.
    ``ages``: minus the times at which the victims were created, oldest first. ``names``: namespaces and names, in order.

    A set costs more than each of its subsets, so that the cheapest of all sets that do is minimal.
    """

    highest: int
    weight: int
    number: int
    node_bound: int
    unreschedulable: int
    remaining_ready: int
    ages: tuple[int, ...]
    names: tuple[tuple[str, str], ...]
