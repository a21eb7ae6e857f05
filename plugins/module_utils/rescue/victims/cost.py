# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of a set of victims: the order by which one set, on any node, is better than another."""

from __future__ import annotations

import typing as t

PRIORITY_OFFSET = 2**31
"""Added to every priority so that its weight is not negative and more victims never weigh less.

Source: kubernetes ``pkg/scheduler/framework/preemption``.
"""

NO_VICTIM = -PRIORITY_OFFSET - 1
"""The highest priority of an empty set of victims."""


class PriorityCost(t.NamedTuple):
    """The fields of a ``Cost`` that the priorities of the victims alone give. The smaller one is better."""

    highest: int
    weight: int
    number: int


class Cost(t.NamedTuple):
    """A cost. The smaller one is better. Each field counts only if the fields before it are equal.

    - ``highest``: the highest priority of a victim
    - ``weight``: the sum of priority + 2^31
    - ``number``: the number of victims
    - ``evicted_last``: the number of victims that are bound to their node by a volume, belong to a gang, or belong to a Job whose rules do
      not ignore disruptions
    - ``unreschedulable``: the number of victims whose replacement fits on no other node now
    - ``remaining_ready``: minus the lowest number of ready pods that an owner of a victim keeps
    - ``ages``: minus the times at which the victims were created, oldest first
    - ``names``: namespaces and names, in order

    A set costs more than each of its subsets, so the cheapest set that frees enough contains no unneeded victim.
    """

    highest: int
    weight: int
    number: int
    evicted_last: int
    unreschedulable: int
    remaining_ready: int
    ages: tuple[int, ...]
    names: tuple[tuple[str, str], ...]

    @property
    def by_priority(self) -> PriorityCost:
        """Return the fields that the priorities alone give."""
        return PriorityCost(self.highest, self.weight, self.number)
