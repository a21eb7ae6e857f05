# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Required affinity and anti-affinity between pods (kubernetes ``plugins/interpodaffinity/filtering.go``).

Where a term asks for labels of a namespace that could not be read, whom it selects is not known: such pods count as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy

from ...model.api.namespace import Namespace
from ...model.api.node import Node
from ...model.api.pod import Pod, PodAffinityTerm
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.label_selector import matches
from ..across_nodes import AcrossNodes
from ..placement import Change, Placement
from ..pod_groups import PodGroup, required_anti_affinity, required_pod_affinity

AFFINITY: Reasons = (Reason("pod_affinity", "node(s) didn't match pod affinity rules"),)
ANTI_AFFINITY: Reasons = (Reason("pod_anti_affinity", "node(s) didn't match pod anti-affinity rules"),)
EXISTING_ANTI_AFFINITY: Reasons = (Reason("existing_pod_anti_affinity", "node(s) didn't satisfy existing pods anti-affinity rules"),)
NAMESPACE_NOT_READ: Reasons = (Reason("namespace_labels", "a pod affinity term asks for labels of a namespace that could not be read"),)


def prepare(pod: Pod, placement: Placement) -> AcrossNodes:
    """Rejects nodes in domains that the pod's terms, or those of the pods that run, keep it out of."""
    return _Matching(pod, placement)


class _Tally:
    """How many pods match in each domain: surely, or perhaps."""

    Domains = dict[str, dict[str, int]]
    """Topology key to the domains that hold matching pods, and how many."""

    def __init__(self, sure: Domains | None = None, possible: Domains | None = None) -> None:
        self.sure = sure or {}
        self.possible = possible or {}

    def copy(self) -> _Tally:
        sure, possible = ({key: dict(domains) for key, domains in kind.items()} for kind in (self.sure, self.possible))
        return _Tally(sure, possible)

    def less(self, other: _Tally) -> _Tally:
        """Without what the other one has counted, which is part of what this one has."""
        return _Tally(_less(self.sure, other.sure), _less(self.possible, other.possible))

    def exceeds(self, other: _Tally, node: Node) -> bool:
        """Whether it has surely counted more than the other one in a domain of the node."""
        for key, domains in self.sure.items():
            domain = node.labels.get(key)
            if domain is not None and domains.get(domain, 0) > other.sure.get(key, {}).get(domain, 0):
                return True
        return False

    def add(self, numbers: Mapping[str, int], topology_key: str, nodes: dict[str, Node], *, surely: bool) -> bool:
        """Count so many pods by node in their domains of the key; a negative number takes away what was counted before.

        Whether a domain has come or gone: how many pods a domain holds decides nothing.
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


def _less(all_of_it: _Tally.Domains, part: _Tally.Domains) -> _Tally.Domains:
    left: _Tally.Domains = {}
    for key, domains in all_of_it.items():
        gone = part.get(key)
        counts = {domain: count - gone.get(domain, 0) for domain, count in domains.items()} if gone else domains
        counts = {domain: count for domain, count in counts.items() if count} if gone else counts
        if counts:
            left[key] = counts
    return left


class _Matching:
    """Which domains hold pods that a term of the pod selects, or pods with a term that selects the pod."""

    def __init__(self, pod: Pod, placement: Placement) -> None:
        self._pod = pod
        self._nodes = placement.snapshot.nodes
        self._namespaces = placement.snapshot.namespaces
        self._affinity = required_pod_affinity(pod)
        self._anti_affinity = required_anti_affinity(pod)
        # Whether the pod is one that its own affinity asks for.
        self._self_affine = bool(self._affinity) and self._all_select(pod)
        self._near = _Tally()
        self._apart = _Tally()
        self._repelling = _Tally()
        self._skipped = False
        self._count_snapshot(placement)

    @property
    def speaks(self) -> bool:
        """Somebody has a term, or may have one that depends on the labels of a namespace that could not be read."""
        return not self._says_nothing or bool(self._repelling.possible)

    @property
    def _says_nothing(self) -> bool:
        """Nobody surely has a term."""
        return not (self._affinity or self._anti_affinity or self._repelling.sure)

    @property
    def topology_keys(self) -> Collection[str]:
        own = (*self._affinity, *self._anti_affinity)
        return {*(term.topology_key for term in own), *self._repelling.sure}

    def closes(self, topology_key: str, domain: str | None) -> bool:
        if self._skipped:
            return False
        if any(domain in tally.sure.get(topology_key, ()) for tally in (self._apart, self._repelling)):
            return True
        if all(term.topology_key != topology_key for term in self._affinity) or self._may_be_first:
            return False
        near = self._near
        return domain not in near.sure.get(topology_key, ()) and domain not in near.possible.get(topology_key, ())

    def follow(self, changes: Iterable[Change]) -> bool:
        return True in [self._shift(other, {node_name: amount}) for other, node_name, amount in changes if amount]

    def beside(self, nominated: Iterable[Pod], node_name: str) -> _Matching:
        matching = copy(self)
        matching._near, matching._apart, matching._repelling = self._near.copy(), self._apart.copy(), self._repelling.copy()
        # Without a term before nominated pods are looked at, the scheduler skips its plugin, also if they have some.
        matching._skipped = self._says_nothing
        for other in nominated:
            matching._shift(other, {node_name: 1})
        return matching

    def rejection(self, node: Node) -> Reasons:
        if self._skipped:
            return PASSED
        if not self._affinity_holds(node, surely=False):
            return AFFINITY
        labels = node.labels
        for key, domains in self._apart.sure.items():
            if labels.get(key) in domains:
                return ANTI_AFFINITY
        for key, domains in self._repelling.sure.items():
            if labels.get(key) in domains:
                return EXISTING_ANTI_AFFINITY
        return PASSED

    def rejection_without(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        counted = self._counted(node, gone)
        if not self._without_near(counted)._affinity_holds(node, surely=False):
            return AFFINITY
        return self._apart_without(counted, node)

    def shuts(self, node: Node, leaving: Sequence[Pod]) -> bool:
        # Where the pods that it seeks are not near, none of them is on this node: no pod that leaves brings them there.
        if not self._affinity_holds(node, surely=False):
            return True
        if not self.rejection(node):
            return False
        # With each more pod that leaves, fewer keep it apart.
        counting = [pod for pod in leaving if self._keeps_apart(pod)]
        return not counting or bool(self._apart_without(self._counted(node, counting), node))

    def _keeps_apart(self, other: Pod) -> bool:
        """Perhaps: it has terms of its own, or a term of the pod selects it."""
        if required_anti_affinity(other):
            return True
        for term in self._anti_affinity:
            if self._selects_namespace(term, other) is not False and matches(term.label_selector, other.metadata.labels):
                return True
        return False

    def _counted(self, node: Node, pods: Sequence[Pod]) -> _Matching:
        """The rule as it is about, with the counts of nothing but these pods on the node."""
        counted = copy(self)
        counted._near, counted._apart, counted._repelling = _Tally(), _Tally(), _Tally()
        for pod in pods:
            counted._shift(pod, {node.name: 1})
        return counted

    def _without_near(self, counted: _Matching) -> _Matching:
        if not (counted._near.sure or counted._near.possible):
            return self
        without = copy(self)
        without._near = self._near.less(counted._near)
        return without

    def _apart_without(self, counted: _Matching, node: Node) -> Reasons:
        """Who keeps the pod off the node without the pods that are counted there."""
        if self._apart.exceeds(counted._apart, node):
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if self._repelling.exceeds(counted._repelling, node) else PASSED

    @property
    def in_doubt(self) -> bool:
        unknown = self._near.possible or self._apart.possible or self._repelling.possible
        return bool(unknown) or self._self_affine is None

    def doubt(self, node: Node, /) -> Reasons:
        if not self.in_doubt:
            return PASSED
        # A sure one has rejected the node, unless it is nominated and the scheduler may skip its plugin.
        tallies = (self._apart.possible, self._repelling.possible, self._repelling.sure)
        closed = any(node.labels.get(key) in domains for tally in tallies for key, domains in tally.items())
        return NAMESPACE_NOT_READ if closed or not self._affinity_holds(node, surely=True) else PASSED

    def _affinity_holds(self, node: Node, *, surely: bool) -> bool:
        """Every term has a pod that matches all of them in the node's domain, or the pod is the first of a group that seeks itself."""
        if not self._affinity:
            return True
        near, labels = self._near, node.labels
        here = True
        for term in self._affinity:
            key = term.topology_key
            domain = labels.get(key)
            if domain is None:
                return False
            here = here and (domain in near.sure.get(key, ()) or (not surely and domain in near.possible.get(key, ())))
        if here:
            return True
        if surely:
            return self._self_affine is True and not near.sure and not near.possible
        return self._may_be_first

    @property
    def _may_be_first(self) -> bool:
        """The pod may be the first of a group that seeks itself."""
        return self._self_affine is not False and not self._near.sure

    # --- counting ---

    def _count_snapshot(self, placement: Placement) -> None:
        groups = placement.groups
        for group, term in groups.repelling(self._pod, self._namespaces):
            self._count(self._repelling, group.nodes, (term,), self._is_selected(term, group.pod))
        for term in self._anti_affinity:
            for group in self._selected(term, placement):
                self._count(self._apart, group.nodes, (term,), self._selects_namespace(term, group.pod))
        for group in self._selected(self._affinity[0], placement) if self._affinity else ():
            self._count(self._near, group.nodes, self._affinity, self._all_select(group.pod))

    def _selected(self, term: PodAffinityTerm, placement: Placement) -> list[PodGroup]:
        """The groups whose labels the term selects, in namespaces that it does or may select."""
        own = not term.namespaces and term.namespace_selector is None
        return placement.groups.selected(self._pod.metadata.namespace if own else None, term.label_selector)

    def _shift(self, other: Pod, numbers: Mapping[str, int]) -> bool:
        """So many more pods like the other one are on nodes; whether that changes where matching pods are."""
        changed = False
        for term in required_anti_affinity(other):
            if matches(term.label_selector, self._pod.metadata.labels):
                changed |= self._count(self._repelling, numbers, (term,), self._is_selected(term, other))
        for term in self._anti_affinity:
            if matches(term.label_selector, other.metadata.labels):
                changed |= self._count(self._apart, numbers, (term,), self._selects_namespace(term, other))
        if self._affinity:
            changed |= self._count(self._near, numbers, self._affinity, self._all_select(other))
        return changed

    def _count(self, tally: _Tally, numbers: Mapping[str, int], terms: Iterable[PodAffinityTerm], selected: bool | None) -> bool:
        if selected is False:
            return False
        return True in [tally.add(numbers, term.topology_key, self._nodes, surely=selected is True) for term in terms]

    # --- selecting ---

    def _all_select(self, other: Pod) -> bool | None:
        """Whether every affinity term of the pod selects the other one; None where that is not known."""
        answers = []
        for term in self._affinity:
            if not matches(term.label_selector, other.metadata.labels):
                return False
            answers.append(self._selects_namespace(term, other))
        if False in answers:
            return False
        return None if None in answers else True

    def _selects_namespace(self, term: PodAffinityTerm, other: Pod) -> bool | None:
        """Whether a term of the pod is for pods of the other's namespace; None where its labels would be needed and are not known.

        1.36 looks up the namespaces that the selector matches, and then still asks it about a namespace without labels: one that
        matches no labels at all, such as NotIn, is for every namespace.
        """
        selector = term.namespace_selector
        if selector is not None and matches(selector, None):
            return True
        return _selects_namespace(term, self._pod, other, self._namespaces)

    def _is_selected(self, term: PodAffinityTerm, owner: Pod) -> bool | None:
        """Whether another pod's term is for pods of this one's namespace."""
        return _selects_namespace(term, owner, self._pod, self._namespaces)


def _selects_namespace(term: PodAffinityTerm, owner: Pod, other: Pod, known: dict[str, Namespace]) -> bool | None:
    name, selector = other.metadata.namespace, term.namespace_selector
    if not term.namespaces and selector is None:
        return name == owner.metadata.namespace
    if name in (term.namespaces or ()):
        return True
    if selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return True
    namespace = known.get(name)
    return None if namespace is None else matches(selector, namespace.metadata.labels)
