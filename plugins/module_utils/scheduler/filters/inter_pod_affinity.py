# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Required affinity and anti-affinity between pods (kubernetes ``plugins/interpodaffinity/filtering.go``).

If a term selects namespaces by labels and the labels of a namespace could not be read, it is not known whether the term selects the pods of
that namespace. Such pods count as possible matches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy

from ...model.api.node import Node
from ...model.api.pod import Pod, PodAffinityTerm
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.label_selector import matches
from ...model.snapshot import ClusterSnapshot
from ..affinity_namespaces import NAMESPACE_NOT_READ, incoming_term_selects, placed_term_selects
from ..affinity_term_index import AffinityGroup, AffinityTermIndex, required_anti_affinity, required_pod_affinity
from ..domain_groups import DomainGroups
from .interface import PodChange, TopologyFilter

AFFINITY: Reasons = (Reason("pod_affinity", "node(s) didn't match pod affinity rules"),)
ANTI_AFFINITY: Reasons = (Reason("pod_anti_affinity", "node(s) didn't match pod anti-affinity rules"),)
EXISTING_ANTI_AFFINITY: Reasons = (Reason("existing_pod_anti_affinity", "node(s) didn't satisfy existing pods anti-affinity rules"),)


def pre_filter(pod: Pod, snapshot: ClusterSnapshot, groups: AffinityTermIndex) -> TopologyFilter:
    """Return the filter that rejects nodes in domains that the pod's terms, or the terms of running pods, exclude."""
    return _InterPodAffinityFilter(pod, snapshot, groups)


class _TopologyCounts:
    """The number of matching pods in each domain: sure matches and possible matches."""

    Domains = dict[str, dict[str, int]]
    """Topology key to the domains that contain matching pods, each with their number."""

    def __init__(self, sure: Domains | None = None, possible: Domains | None = None) -> None:
        self.sure = sure or {}
        self.possible = possible or {}

    def copy(self) -> _TopologyCounts:
        sure, possible = ({key: dict(domains) for key, domains in kind.items()} for kind in (self.sure, self.possible))
        return _TopologyCounts(sure, possible)

    def minus(self, other: _TopologyCounts) -> _TopologyCounts:
        """Return the counts without those of the other, which are part of these."""
        return _TopologyCounts(_minus(self.sure, other.sure), _minus(self.possible, other.possible))

    def exceeds(self, other: _TopologyCounts, node: Node) -> bool:
        """Return whether the sure count is larger than that of the other in a domain of the node."""
        for key, domains in self.sure.items():
            domain = node.labels.get(key)
            if domain is not None and domains.get(domain, 0) > other.sure.get(key, {}).get(domain, 0):
                return True
        return False

    def add(self, numbers: Mapping[str, int], topology_key: str, nodes: dict[str, Node], *, surely: bool) -> bool:
        """Add the number of pods on each node to its domain of the key; a negative number subtracts.

        Return whether a domain was added or removed. The number of pods in a domain does not affect the filter.
        """
        kind = self.sure if surely else self.possible
        counts = kind.get(topology_key, {})
        changed = False
        for name, number in numbers.items():
            domain = nodes[name].labels.get(topology_key)
            if domain is None:
                continue
            total = counts.get(domain, 0) + number
            changed = changed or not total or domain not in counts
            if total:
                counts[domain] = total
            else:
                counts.pop(domain, None)
        if counts:
            kind[topology_key] = counts
        else:
            kind.pop(topology_key, None)
        return changed


def _minus(all_of_it: _TopologyCounts.Domains, part: _TopologyCounts.Domains) -> _TopologyCounts.Domains:
    left: _TopologyCounts.Domains = {}
    for key, domains in all_of_it.items():
        gone = part.get(key)
        counts = {domain: count - gone.get(domain, 0) for domain, count in domains.items()} if gone else domains
        counts = {domain: count for domain, count in counts.items() if count} if gone else counts
        if counts:
            left[key] = counts
    return left


class _InterPodAffinityFilter:
    """Counts the pods that a term of the pod selects, and the pods with a term that selects the pod, by domain."""

    def __init__(self, pod: Pod, snapshot: ClusterSnapshot, groups: AffinityTermIndex) -> None:
        self._pod = pod
        self._nodes = snapshot.nodes
        self._namespaces = snapshot.namespaces
        self._affinity_terms = required_pod_affinity(pod)
        self._anti_affinity_terms = required_anti_affinity(pod)
        # True if the pod's own affinity terms select it; None if that is not known.
        self._selects_itself = bool(self._affinity_terms) and self._all_select(pod)
        self._affinity = _TopologyCounts()
        self._anti_affinity = _TopologyCounts()
        self._existing_anti_affinity = _TopologyCounts()
        self._skipped = False
        self._count_snapshot(groups)

    @property
    def is_active(self) -> bool:
        """True if a pod has a term, or may have one that depends on the labels of a namespace that could not be read."""
        return not self._has_no_terms or bool(self._existing_anti_affinity.possible)

    @property
    def _has_no_terms(self) -> bool:
        """True if no pod surely has a term."""
        return not (self._affinity_terms or self._anti_affinity_terms or self._existing_anti_affinity.sure)

    @property
    def topology_keys(self) -> Collection[str]:
        own = (*self._affinity_terms, *self._anti_affinity_terms)
        return {*(term.topology_key for term in own), *self._existing_anti_affinity.sure}

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        if self._skipped:
            return False
        if any(
            domain in topology_counts.sure.get(topology_key, ()) for topology_counts in (self._anti_affinity, self._existing_anti_affinity)
        ):
            return True
        if all(term.topology_key != topology_key for term in self._affinity_terms) or self._may_start_group:
            return False
        affinity = self._affinity
        return domain not in affinity.sure.get(topology_key, ()) and domain not in affinity.possible.get(topology_key, ())

    def closed_domains(self) -> dict[str, set[str | None]] | None:
        if self._affinity_terms:
            return None
        closed: dict[str, set[str | None]] = {}
        for counts in (self._anti_affinity, self._existing_anti_affinity) if not self._skipped else ():
            for key, domains in counts.sure.items():
                closed.setdefault(key, set()).update(domains)
        return closed

    def surely_allows(self, pods: int, nodes: tuple[str, ...], changed: int, groups: DomainGroups) -> bool:
        closed = self.closed_domains()
        if closed is None or self.may_be_unknown or self._skipped:
            return False
        number = pods + changed
        for key, domains in closed.items():
            by_domain = groups.by_domain(nodes, key)
            number += sum(len(by_domain.get(domain, ())) for domain in domains)
        # Each pod closes at most one domain for each term.
        number += sum(pods * groups.largest(nodes, term.topology_key) for term in self._anti_affinity_terms)
        return len(nodes) > number

    def apply_changes(self, changes: Iterable[PodChange]) -> bool:
        return True in [self._count_pod(other, {node_name: amount}) for other, node_name, amount in changes if amount]

    def copy(self) -> _InterPodAffinityFilter:
        other = copy(self)
        other._affinity, other._anti_affinity, other._existing_anti_affinity = (
            self._affinity.copy(),
            self._anti_affinity.copy(),
            self._existing_anti_affinity.copy(),
        )
        return other

    def with_nominated_pods(self, nominated: Iterable[Pod], node_name: str) -> _InterPodAffinityFilter:
        matching = self.copy()
        # If no pod has a term before the nominated pods are added, the scheduler skips its plugin, even if the nominated pods have terms.
        matching._skipped = self._has_no_terms
        for other in nominated:
            matching._count_pod(other, {node_name: 1})
        return matching

    def rejection(self, node: Node) -> Reasons:
        if self._skipped:
            return PASSED
        if not self._affinity_is_met(node, surely=False):
            return AFFINITY
        labels = node.labels
        for key, domains in self._anti_affinity.sure.items():
            if labels.get(key) in domains:
                return ANTI_AFFINITY
        for key, domains in self._existing_anti_affinity.sure.items():
            if labels.get(key) in domains:
                return EXISTING_ANTI_AFFINITY
        return PASSED

    def rejection_without_pods(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        counted = self._counting_only(node, gone)
        if not self._without_affinity_of(counted)._affinity_is_met(node, surely=False):
            return AFFINITY
        return self._anti_affinity_without(counted, node)

    def always_rejects(self, node: Node, leaving: Sequence[Pod]) -> bool:
        # If no pod that the affinity selects is in the domain, none is on this node, and no removal of pods changes that.
        if not self._affinity_is_met(node, surely=False):
            return True
        if not self.rejection(node):
            return False
        # Each removed pod can only reduce the number of pods that keep the pod off the node.
        counting = [pod for pod in leaving if self._may_repel(pod)]
        return not counting or bool(self._anti_affinity_without(self._counting_only(node, counting), node))

    def _may_repel(self, other: Pod) -> bool:
        """Return whether the other pod has anti-affinity terms, or an anti-affinity term of the pod selects or may select it."""
        if required_anti_affinity(other):
            return True
        for term in self._anti_affinity_terms:
            if self._selects_namespace(term, other) is not False and matches(term.label_selector, other.metadata.labels):
                return True
        return False

    def _counting_only(self, node: Node, pods: Sequence[Pod]) -> _InterPodAffinityFilter:
        """Return a copy of this filter that counts only these pods on the node."""
        counted = copy(self)
        counted._affinity, counted._anti_affinity, counted._existing_anti_affinity = _TopologyCounts(), _TopologyCounts(), _TopologyCounts()
        for pod in pods:
            counted._count_pod(pod, {node.name: 1})
        return counted

    def _without_affinity_of(self, counted: _InterPodAffinityFilter) -> _InterPodAffinityFilter:
        if not (counted._affinity.sure or counted._affinity.possible):
            return self
        without = copy(self)
        without._affinity = self._affinity.minus(counted._affinity)
        return without

    def _anti_affinity_without(self, counted: _InterPodAffinityFilter, node: Node) -> Reasons:
        """Return the reasons of anti-affinity that reject the node without the pods that ``counted`` has counted there."""
        if self._anti_affinity.exceeds(counted._anti_affinity, node):
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if self._existing_anti_affinity.exceeds(counted._existing_anti_affinity, node) else PASSED

    @property
    def may_be_unknown(self) -> bool:
        unknown = self._affinity.possible or self._anti_affinity.possible or self._existing_anti_affinity.possible
        return bool(unknown) or self._selects_itself is None

    def unknown(self, node: Node, /) -> Reasons:
        if not self.may_be_unknown:
            return PASSED
        # A sure match has rejected the node already, except if the matching pod is nominated and the scheduler may skip its plugin.
        all_counts = (self._anti_affinity.possible, self._existing_anti_affinity.possible, self._existing_anti_affinity.sure)
        closed = any(node.labels.get(key) in domains for topology_counts in all_counts for key, domains in topology_counts.items())
        return NAMESPACE_NOT_READ if closed or not self._affinity_is_met(node, surely=True) else PASSED

    def _affinity_is_met(self, node: Node, *, surely: bool) -> bool:
        """Return whether the affinity terms of the pod allow the node.

        They do if the node's domain of every term contains a pod that matches all terms, or if the pod may be the first of a group that
        selects itself.
        """
        if not self._affinity_terms:
            return True
        affinity, labels = self._affinity, node.labels
        here = True
        for term in self._affinity_terms:
            key = term.topology_key
            domain = labels.get(key)
            if domain is None:
                return False
            here = here and (domain in affinity.sure.get(key, ()) or (not surely and domain in affinity.possible.get(key, ())))
        if here:
            return True
        if surely:
            return self._selects_itself is True and not affinity.sure and not affinity.possible
        return self._may_start_group

    @property
    def _may_start_group(self) -> bool:
        """True if the pod may be the first of a group that selects itself."""
        return self._selects_itself is not False and not self._affinity.sure

    # --- counting ---

    def _count_snapshot(self, groups: AffinityTermIndex) -> None:
        for group, term in groups.anti_affinity_terms_matching(self._pod, self._namespaces):
            self._count(self._existing_anti_affinity, group.nodes, (term,), self._is_selected(term, group.pod))
        for term in self._anti_affinity_terms:
            for group in self._selected(term, groups):
                self._count(self._anti_affinity, group.nodes, (term,), self._selects_namespace(term, group.pod))
        for group in self._selected(self._affinity_terms[0], groups) if self._affinity_terms else ():
            self._count(self._affinity, group.nodes, self._affinity_terms, self._all_select(group.pod))

    def _selected(self, term: PodAffinityTerm, groups: AffinityTermIndex) -> list[AffinityGroup]:
        """Return the groups whose labels the term selects, in namespaces that it selects or may select."""
        own = not term.namespaces and term.namespace_selector is None
        return groups.pods_matching(self._pod.metadata.namespace if own else None, term.label_selector)

    def _count_pod(self, other: Pod, numbers: Mapping[str, int]) -> bool:
        """Add pods that are like the other one to the counts, by node. Return whether the domains with matching pods have changed."""
        changed = False
        for term in required_anti_affinity(other):
            if matches(term.label_selector, self._pod.metadata.labels):
                changed |= self._count(self._existing_anti_affinity, numbers, (term,), self._is_selected(term, other))
        for term in self._anti_affinity_terms:
            if matches(term.label_selector, other.metadata.labels):
                changed |= self._count(self._anti_affinity, numbers, (term,), self._selects_namespace(term, other))
        if self._affinity_terms:
            changed |= self._count(self._affinity, numbers, self._affinity_terms, self._all_select(other))
        return changed

    def _count(
        self, topology_counts: _TopologyCounts, numbers: Mapping[str, int], terms: Iterable[PodAffinityTerm], selected: bool | None
    ) -> bool:
        if selected is False:
            return False
        return True in [topology_counts.add(numbers, term.topology_key, self._nodes, surely=selected is True) for term in terms]

    # --- selecting ---

    def _all_select(self, other: Pod) -> bool | None:
        """Return whether every affinity term of the pod selects the other pod. Return None if that is not known."""
        answers = []
        for term in self._affinity_terms:
            if not matches(term.label_selector, other.metadata.labels):
                return False
            answers.append(self._selects_namespace(term, other))
        if False in answers:
            return False
        return None if None in answers else True

    def _selects_namespace(self, term: PodAffinityTerm, other: Pod) -> bool | None:
        """Return whether a term of the pod is for pods in the other pod's namespace."""
        return incoming_term_selects(term, self._pod, other, self._namespaces)

    def _is_selected(self, term: PodAffinityTerm, owner: Pod) -> bool | None:
        """Return whether another pod's term is for pods in this pod's namespace."""
        return placed_term_selects(term, owner, self._pod, self._namespaces)
