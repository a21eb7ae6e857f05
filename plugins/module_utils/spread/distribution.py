# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How the placed replicas of a workload lie over the domains of a topology key, and the verdict on it."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model.objects import Node, Pod
from ..scheduling.domains import domain_of

HEALTHY = "healthy"
COLLAPSED = "collapsed"
SKEWED = "skewed"
ROLLING = "rolling"
SKIPPED = "skipped"
UNKNOWN = "unknown"

SPREAD = "spread"
"""The reason of a workload that is healthy although it could be otherwise."""

MOST_LISTED = 100
"""Domains that are listed although they hold nothing; 5,000 zeros for each of 1,000 workloads would make results of many MB."""

# Worst first: of several topology keys the worst verdict is the workload's.
_SEVERITY = {COLLAPSED: 3, SKEWED: 2, UNKNOWN: 1, HEALTHY: 0}


@dataclass(frozen=True)
class Distribution:
    """Replicas per domain of one topology key: eligible domains (also those with none) and other domains that hold some."""

    topology_key: str
    eligible: dict[str, int]
    elsewhere: dict[str, int]
    without_domain: int

    @property
    def counts(self) -> dict[str, int]:
        """Replicas by domain, eligible or not."""
        return {**self.eligible, **self.elsewhere}

    @property
    def listed(self) -> dict[str, int]:
        """The counts for people and results: of very many domains only those that hold replicas."""
        if len(self.eligible) <= MOST_LISTED:
            return self.counts
        return {domain: count for domain, count in self.counts.items() if count}

    @property
    def skew(self) -> int:
        """max − min replicas over the eligible domains; 0 where there are none."""
        return max(self.eligible.values()) - min(self.eligible.values()) if self.eligible else 0


class Verdict(t.NamedTuple):
    """A verdict and its reason; ``topology_key`` is the key that decided it."""

    verdict: str
    reason: str
    topology_key: str = ""


def distribute(topology_key: str, node_names: Iterable[str], nodes: Mapping[str, Node], eligible: Iterable[str]) -> Distribution:
    """Count replicas by domain; ``node_names`` is the node of each replica, ``eligible`` the nodes open to the workload."""
    open_domains = {domain_of(nodes[name], topology_key) for name in eligible}
    open_domains.discard(None)
    counts = Counter(domain_of(nodes[name], topology_key) if name in nodes else None for name in node_names)
    without_domain = counts.pop(None, 0)
    return Distribution(
        topology_key=topology_key,
        eligible={domain: counts.get(domain, 0) for domain in sorted(d for d in open_domains if d is not None)},
        elsewhere={str(domain): counts[domain] for domain in sorted(d for d in counts if d not in open_domains and d is not None)},
        without_domain=without_domain,
    )


def distribute_pods(
    topology_keys: Iterable[str], pods: Iterable[Pod], nodes: Mapping[str, Node], eligible: Iterable[str]
) -> list[Distribution]:
    """One distribution for each topology key."""
    homes = [pod.spec.node_name for pod in pods]
    names = list(eligible)
    return [distribute(key, homes, nodes, names) for key in topology_keys]


def judge(distributions: Iterable[Distribution], *, max_skew: t.Optional[int]) -> Verdict:
    """The worst verdict over the topology keys; with equal ones the key listed first decides."""
    verdicts = [_judge_key(distribution, max_skew) for distribution in distributions]
    return max(verdicts, key=lambda verdict: _SEVERITY[verdict.verdict])


def badness(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> tuple[int, ...]:
    """The verdict's rank, then the skew by topology key: what is lower is spread better. Predictions and outcomes compare by it."""
    verdict = judge(distributions, max_skew=max_skew).verdict
    return ({COLLAPSED: 2, SKEWED: 1}.get(verdict, 0), *(distribution.skew for distribution in distributions))


def listed_by_key(distributions: Iterable[Distribution]) -> dict[str, dict[str, int]]:
    """Replicas by topology key and domain, as results list them."""
    return {distribution.topology_key: distribution.listed for distribution in distributions}


def _judge_key(distribution: Distribution, max_skew: t.Optional[int]) -> Verdict:
    key = distribution.topology_key
    placed = sum(distribution.counts.values())
    if not distribution.eligible:
        return Verdict(UNKNOWN, f"no_domain: no eligible node has the label {key}", key)
    if distribution.without_domain:
        return Verdict(UNKNOWN, f"no_domain: {distribution.without_domain} replicas are on nodes without the label {key}", key)
    if len(distribution.eligible) < 2:
        return Verdict(HEALTHY, "single_domain", key)
    holders = [domain for domain, count in distribution.counts.items() if count]
    if len(holders) == 1:
        reason = f"collapsed: all {placed} placed replicas in {key}={holders[0]}, {len(distribution.eligible)} domains are eligible"
        return Verdict(COLLAPSED, reason, key)
    if max_skew is not None and distribution.skew > max_skew:
        counts = distribution.eligible.values()
        return Verdict(SKEWED, f"skewed: {max(counts)} to {min(counts)} replicas over {key}, max_skew is {max_skew}", key)
    return Verdict(HEALTHY, SPREAD, key)
