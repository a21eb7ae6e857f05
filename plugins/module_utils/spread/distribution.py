# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Placed replicas of a workload by domain of one topology key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ..model.codec import Struct

MOST_LISTED = 100
"""Domains that are listed although they hold nothing; 5,000 zeros for each of 1,000 workloads would make results of many MB."""


class Distribution(Struct, frozen=True):
    """Replicas per domain of one topology key.

    ``domains`` are the eligible ones, sorted, and shared by all workloads that have the same; ``placed`` holds only domains with
    replicas, eligible or not, so that thousands of empty domains cost nothing.
    """

    topology_key: str
    domains: tuple[str, ...]
    placed: dict[str, int]
    without_domain: int
    most: int
    """Replicas in the fullest eligible domain."""
    fewest: int
    """Replicas in the emptiest eligible domain."""

    @property
    def replicas(self) -> int:
        """All replicas that are in some domain."""
        return sum(self.placed.values())

    @property
    def listed(self) -> dict[str, int]:
        """The counts for people and results: eligible domains, also empty ones if they are not too many, and then the others."""
        if len(self.domains) <= MOST_LISTED:
            return {**dict.fromkeys(self.domains, 0), **self.placed}
        eligible = {domain: count for domain, count in self.placed.items() if self._is_eligible(domain)}
        return {**eligible, **self.placed}

    def _is_eligible(self, domain: str) -> bool:
        place = bisect_left(self.domains, domain)
        return place < len(self.domains) and self.domains[place] == domain

    @property
    def skew(self) -> int:
        """max − min replicas over the eligible domains; 0 where there are none."""
        return self.most - self.fewest


def listed_by_key(distributions: Iterable[Distribution]) -> dict[str, dict[str, int]]:
    """Replicas by topology key and domain, as results list them."""
    return {distribution.topology_key: distribution.listed for distribution in distributions}
