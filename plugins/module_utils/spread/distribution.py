# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How the placed replicas of a workload lie over the domains of a topology key, and the verdict on it."""

from __future__ import annotations

import typing as t
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..model.api.node import Node
from ..model.bounded_cache import BoundedCache
from ..model.codec import Struct
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from .no_domain import NO_DOMAIN
from .node_groups import MOST_KEPT, NodeGroups

if t.TYPE_CHECKING:
    from .places import Places

HEALTHY = "healthy"
COLLAPSED = "collapsed"
SKEWED = "skewed"
ROLLING = "rolling"
SKIPPED = "skipped"
UNKNOWN = "unknown"

SPREAD = "spread"
"""The code of the reason of a workload that is healthy although it could be otherwise."""

MOST_LISTED = 100
"""Domains that are listed although they hold nothing; 5,000 zeros for each of 1,000 workloads would make results of many MB."""

# Worst first: of several topology keys the worst verdict is the workload's.
_SEVERITY = {COLLAPSED: 3, SKEWED: 2, UNKNOWN: 1, HEALTHY: 0}


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


class Domains(t.NamedTuple):
    """Eligible nodes, the domain of each that has one, and these domains, sorted and as a set."""

    eligible: tuple[str, ...]
    by_node: dict[str, str]
    domains: tuple[str, ...]
    known: frozenset[str]


class _Named(t.NamedTuple):
    """The sorted domains of nodes, and how many of the nodes have none."""

    names: tuple[str, ...]
    domains: list[str]
    lacking: int


class Topology:
    """The domains of a snapshot's nodes, worked out once for all workloads that share their tuple of eligible nodes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.groups = NodeGroups(nodes)
        # By identity, because a hash of thousands of names takes longer than all the rest. The values hold the tuples.
        self._domains: BoundedCache[tuple[str, int], Domains] = BoundedCache(MOST_KEPT)
        self._of_names: BoundedCache[tuple[str, int], _Named] = BoundedCache(MOST_KEPT)
        self._places: BoundedCache[tuple[tuple[str, ...], int], Places] = BoundedCache(MOST_KEPT)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> Topology:
        """The topology of the snapshot, for ``snapshot.once``."""
        return cls(snapshot.nodes)

    def places(self, topology_keys: Sequence[str], eligible: tuple[str, ...]) -> Places:
        """The places of the eligible nodes."""
        from .places import Places  # only evictions need it

        keys = tuple(topology_keys)
        return self._places.get((keys, id(eligible)), lambda: Places(eligible, keys, self.groups))

    def distribute(self, topology_key: str, homes: Iterable[str], eligible: tuple[str, ...]) -> Distribution:
        """Count replicas by domain; ``homes`` is the node of each replica, ``eligible`` the nodes open to the workload."""
        over = self.over(topology_key, eligible)
        counts = Counter(map(self.groups.domains(topology_key).get, homes))
        without_domain = counts.pop(None, 0)
        placed = {domain: counts[domain] for domain in sorted(domain for domain in counts if domain is not None)}
        held = [count for domain, count in placed.items() if domain in over.known]
        return Distribution(
            topology_key=topology_key,
            domains=over.domains,
            placed=placed,
            without_domain=without_domain,
            most=max(held, default=0),
            fewest=min(held, default=0) if len(held) == len(over.domains) else 0,
        )

    def distribute_over(self, topology_keys: Iterable[str], homes: Iterable[str], eligible: tuple[str, ...]) -> list[Distribution]:
        """One distribution for each topology key."""
        names = list(homes)
        return [self.distribute(key, names, eligible) for key in topology_keys]

    def in_two_domains(self, topology_keys: Iterable[str], homes: Sequence[str], eligible: tuple[str, ...]) -> bool:
        """Whether replicas are in two domains of each key that has so many; all nodes are eligible and have a domain."""
        for key in topology_keys:
            of_node = self.groups.domains(key)
            first = of_node[homes[0]]
            if all(of_node[home] == first for home in homes) and len(self.over(key, eligible).domains) > 1:
                return False
        return True

    def lacking(self, topology_keys: Iterable[str], names: tuple[str, ...]) -> t.Optional[Reason]:
        """Why a new pod may come to lie in no domain: some of the nodes have no label for a key. None where all have all."""
        for key in topology_keys:
            lacking = self._named(key, names).lacking
            if lacking:
                nodes = f"{lacking} of {len(names)} nodes that are open to it"
                return Reason(NO_DOMAIN, f"{nodes} have no label {key}; a new pod there would count nowhere: label them")
        return None

    def domains_of(self, topology_key: str, names: tuple[str, ...]) -> list[str]:
        """The domains of these nodes, sorted."""
        return self._named(topology_key, names).domains

    def _named(self, topology_key: str, names: tuple[str, ...]) -> _Named:
        return self._of_names.get((topology_key, id(names)), lambda: self._name(topology_key, names))

    def _name(self, topology_key: str, names: tuple[str, ...]) -> _Named:
        of_node = self.groups.domains(topology_key)
        found = Counter(of_node[name] for name in names)
        return _Named(names, sorted(domain for domain in found if domain is not None), found[None])

    def over(self, topology_key: str, eligible: tuple[str, ...]) -> Domains:
        """The domains of the eligible nodes."""
        return self._domains.get((topology_key, id(eligible)), lambda: self._over(topology_key, eligible))

    def _over(self, topology_key: str, eligible: tuple[str, ...]) -> Domains:
        of_node = self.groups.domains(topology_key)
        domains = ((name, of_node[name]) for name in eligible)
        by_node = {name: domain for name, domain in domains if domain is not None}
        known = frozenset(by_node.values())
        return Domains(eligible, by_node, tuple(sorted(known)), known)


class Verdict(t.NamedTuple):
    """A verdict and its reason; ``topology_key`` is the key that decided it."""

    verdict: str
    reason: Reason
    topology_key: str = ""


def judge(distributions: Iterable[Distribution], *, max_skew: t.Optional[int]) -> Verdict:
    """The worst verdict over the topology keys; with equal ones the key listed first decides.

    A key with one domain only says nothing, as long as there is another one.
    """
    verdicts = [_judge_key(distribution, max_skew) for distribution in distributions]
    return max(verdicts, key=lambda verdict: (_SEVERITY[verdict.verdict], verdict.reason.code == SPREAD))


WORST_RANK = 2
"""The rank of a collapsed workload, and of one that cannot be judged."""

Badness = tuple[int, ...]


def badness(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> Badness:
    """The verdict's rank, replicas in no domain, then the skew by topology key: what is lower is spread better.

    Predictions and outcomes compare by it. Replicas on nodes without the key leave the verdict unknown, which is no better than piled up.
    """
    verdict = judge(distributions, max_skew=max_skew).verdict
    nowhere = sum(distribution.without_domain for distribution in distributions)
    return (
        {COLLAPSED: WORST_RANK, UNKNOWN: WORST_RANK, SKEWED: 1}.get(verdict, 0),
        nowhere,
        *(distribution.skew for distribution in distributions),
    )


def listed_by_key(distributions: Iterable[Distribution]) -> dict[str, dict[str, int]]:
    """Replicas by topology key and domain, as results list them."""
    return {distribution.topology_key: distribution.listed for distribution in distributions}


def _judge_key(distribution: Distribution, max_skew: t.Optional[int]) -> Verdict:
    key, domains = distribution.topology_key, len(distribution.domains)
    if not domains:
        return Verdict(UNKNOWN, Reason(NO_DOMAIN, f"no eligible node has the label {key}"), key)
    if distribution.without_domain:
        verb = "is" if distribution.without_domain == 1 else "are"
        text = f"{pluralize(distribution.without_domain, 'replica')} {verb} in no domain of {key}"
        return Verdict(UNKNOWN, Reason(NO_DOMAIN, text), key)
    if domains < 2:
        return Verdict(HEALTHY, Reason("single_domain"), key)
    if len(distribution.placed) == 1:
        (home,) = distribution.placed
        text = f"all {distribution.replicas} placed replicas in {key}={home}, {domains} domains are eligible"
        return Verdict(COLLAPSED, Reason("collapsed", text), key)
    if max_skew is not None and distribution.skew > max_skew:
        text = f"{distribution.most} to {distribution.fewest} replicas over {key}, max_skew is {max_skew}"
        return Verdict(SKEWED, Reason("skewed", text), key)
    text = f"not collapsed over {key}" if max_skew is None else f"even over {key}, max_skew is {max_skew}"
    return Verdict(HEALTHY, Reason(SPREAD, text), key)
