# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Placed replicas of a workload by domain of one topology key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ..model.codec import Struct

MAX_LISTED = 100
"""Limit of eligible domains for which the empty ones are listed. 5,000 zeros for each of 1,000 workloads make results of many MB."""


class Distribution(Struct, frozen=True):
    """Replicas per domain of one topology key.

    ``domains`` are the eligible ones, sorted. All workloads with the same eligible domains share the tuple. ``placed`` has only domains
    with replicas, eligible or not, so thousands of empty domains cost nothing.
    """

    topology_key: str
    domains: tuple[str, ...]
    placed: dict[str, int]
    without_domain: int
    most: int
    """Number of replicas in the eligible domain that has the most."""
    fewest: int
    """Number of replicas in the eligible domain that has the fewest."""

    @property
    def replicas(self) -> int:
        """Number of replicas that are in a domain."""
        return sum(self.placed.values())

    @property
    def is_collapsed(self) -> bool:
        """True if all replicas are in one domain although several are eligible."""
        return len(self.placed) == 1 and len(self.domains) > 1 and not self.without_domain

    @property
    def listed(self) -> dict[str, int]:
        """The counts for people and results.

        Eligible domains are first, the empty ones only up to ``MAX_LISTED`` domains. The other domains follow.
        """
        if len(self.domains) <= MAX_LISTED:
            return {**dict.fromkeys(self.domains, 0), **self.placed}
        eligible = {domain: count for domain, count in self.placed.items() if self._is_eligible(domain)}
        return {**eligible, **self.placed}

    def _is_eligible(self, domain: str) -> bool:
        place = bisect_left(self.domains, domain)
        return place < len(self.domains) and self.domains[place] == domain

    @property
    def skew(self) -> int:
        """max − min replicas over the eligible domains; 0 without eligible domains."""
        return self.most - self.fewest


def listed_by_key(distributions: Iterable[Distribution]) -> dict[str, dict[str, int]]:
    """Return the replicas by topology key and domain, in the form that results have."""
    return {distribution.topology_key: distribution.listed for distribution in distributions}
