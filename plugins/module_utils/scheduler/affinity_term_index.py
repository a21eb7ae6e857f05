# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods on nodes, grouped by namespace, labels and affinity, with indexes to find groups and affinity terms by label.

The pods of one template share their labels and affinity (``model/interning.py``), so a filter compares each template once.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ..model.api.meta import LabelSelector
from ..model.api.namespace import Namespace
from ..model.api.pod import Pod, PodAffinityTerm
from ..model.codec import encode_json
from ..model.selectors.label_selector import matches
from ..model.selectors.selector_index import Label, SelectorIndex

_LabelOrKey = t.Union[str, Label]
_NamespaceScope = t.Union[str, bytes]
"""A namespace, the encoded text of a namespace selector, or empty for a term with both namespaces and a namespace selector."""


class AffinityGroup(t.NamedTuple):
    """Pods with the same namespace, labels and affinity; either all or none of them are terminating.

    ``pod``: one of them. ``nodes``: node name to the number of these pods on the node.
    """

    pod: Pod
    nodes: dict[str, int]


class ScoredTerm(t.NamedTuple):
    """A term that changes the score of the nodes in a domain by ``weight``, which is negative for anti-affinity.

    ``weight`` is None for a required affinity term, whose weight is a setting of the profile.
    """

    term: PodAffinityTerm
    weight: int | None


_Key = tuple[str, int, int, bool]
_Term = tuple[AffinityGroup, PodAffinityTerm]
E = t.TypeVar("E")


class AffinityTermIndex:
    """The groups of a snapshot and their affinity terms, indexed by namespace and label. Read only.

    The terms that only scores depend on are indexed at the first use.
    """

    def __init__(self, groups: dict[_Key, AffinityGroup]) -> None:
        self._groups = groups
        self._by_namespace: dict[str, list[AffinityGroup]] = {}
        # By namespace; None is the key for all namespaces.
        self._by_label: dict[str | None, dict[Label, list[AffinityGroup]]] = {None: {}}
        self._anti_affinity_terms: _TermsByLabel[_Term] = _TermsByLabel()
        self._scored_terms: _TermsByLabel[tuple[AffinityGroup, ScoredTerm]] | None = None
        for group in groups.values():
            namespace = group.pod.metadata.namespace
            self._by_namespace.setdefault(namespace, []).append(group)
            indexes = (self._by_label.setdefault(namespace, {}), self._by_label[None])
            for label in (group.pod.metadata.labels or {}).items():
                for labelled in indexes:
                    labelled.setdefault(label, []).append(group)
            for term in required_anti_affinity(group.pod):
                self._anti_affinity_terms.add(term, group.pod, (group, term))

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> AffinityTermIndex:
        """Return the groups of pods that are on nodes."""
        return cls({}).updated((), pods)

    def updated(self, gone: Iterable[Pod], come: Iterable[Pod]) -> AffinityTermIndex:
        """Return the groups after some pods have been removed from their nodes and others have been added to theirs.

        ``gone``: the removed pods; each of them must be in a group. ``come``: the added pods.
        """
        groups = dict(self._groups)
        own: dict[_Key, AffinityGroup] = {}
        for amount, pods in ((-1, gone), (1, come)):
            for pod in pods:
                key, name = _key(pod), pod.spec.node_name
                if key not in own:
                    before = groups.get(key)
                    own[key] = groups[key] = AffinityGroup(pod, {}) if before is None else AffinityGroup(before.pod, dict(before.nodes))
                nodes = own[key].nodes
                nodes[name] = nodes.get(name, 0) + amount
                if not nodes[name]:
                    del nodes[name]
        for key, group in own.items():
            if not group.nodes:
                del groups[key]
        return AffinityTermIndex(groups)

    def pods_matching(self, namespace: str | None, selector: LabelSelector | None) -> list[AffinityGroup]:
        """Return the groups of the namespace whose labels match the selector; None for ``namespace`` means all namespaces."""
        wanted = _required_labels(selector)
        candidates = self._groups.values() if namespace is None else self._by_namespace.get(namespace, [])
        if wanted:
            labelled = self._by_label.get(namespace, {})
            candidates = min((labelled.get(label, []) for label in wanted), key=len)
        return [group for group in candidates if matches(selector, group.pod.metadata.labels)]

    def anti_affinity_terms_matching(self, pod: Pod, namespaces: Mapping[str, Namespace]) -> list[_Term]:
        """Return the required anti-affinity terms whose labels select the pod and that may be for its namespace.

        ``namespaces``: the namespaces that could be read, by name.
        """
        return self._anti_affinity_terms.matching(pod, namespaces)

    def scored_terms_matching(self, pod: Pod, namespaces: Mapping[str, Namespace]) -> list[tuple[AffinityGroup, ScoredTerm]]:
        """Return the terms that change scores, whose labels select the pod, and that may be for its namespace."""
        if self._scored_terms is None:
            self._scored_terms = _TermsByLabel()
            for group in self._groups.values():
                for scored in scored_terms(group.pod):
                    self._scored_terms.add(scored.term, group.pod, (group, scored))
        return self._scored_terms.matching(pod, namespaces)


class _TermsByLabel(t.Generic[E]):
    """Affinity terms of pods, each with an entry that ``matching`` returns."""

    def __init__(self) -> None:
        # By a label or label key that the term requires (empty if it requires none), then by the namespaces that the term is for.
        self._terms: dict[_LabelOrKey, dict[_NamespaceScope, list[tuple[PodAffinityTerm, E]]]] = {}
        self._selectors: dict[bytes, LabelSelector] = {}
        self._selector_index: SelectorIndex[bytes] | None = None
        self._scopes: dict[str, tuple[Namespace | None, frozenset[_NamespaceScope]]] = {}

    def add(self, term: PodAffinityTerm, owner: Pod, entry: E) -> None:
        """Add a term of the pod ``owner``. All terms are added before the first call of ``matching``."""
        scopes = self._scopes_for(term, owner)
        wanted: list[_LabelOrKey] = [*_required_labels(term.label_selector)] or [*_required_keys(term.label_selector)]
        # The label with the fewest terms leaves the fewest terms to compare. A label such as "managed-by" is on most pods.
        rarest = min(wanted, key=lambda asked: len(self._terms.get(asked, {}).get(scopes[0], ())), default="")
        for scope in scopes:
            self._terms.setdefault(rarest, {}).setdefault(scope, []).append((term, entry))

    def _scopes_for(self, term: PodAffinityTerm, owner: Pod) -> t.Sequence[_NamespaceScope]:
        """Return the namespaces that the term is for.

        A term that both names namespaces and selects some has one scope, the empty one, so it counts once.
        """
        if term.namespace_selector is None:
            return tuple(dict.fromkeys(term.namespaces or (owner.metadata.namespace,)))
        if term.namespaces:
            return ("",)
        key = encode_json(term.namespace_selector)
        self._selectors[key] = term.namespace_selector
        return (key,)

    def _scopes_of(self, namespace: str, known: Mapping[str, Namespace]) -> frozenset[_NamespaceScope]:
        """Return the scopes that the namespace is in or may be in. A namespace that could not be read may be in every selector."""
        found = known.get(namespace)
        kept = self._scopes.get(namespace)
        if kept is None or kept[0] is not found:  # its labels may have changed since the last call
            if self._selector_index is None:
                self._selector_index = SelectorIndex((selector, key) for key, selector in self._selectors.items())
            keys = self._selectors if found is None else self._selector_index.selecting(found.metadata.labels)
            kept = self._scopes[namespace] = (found, frozenset(("", namespace, *keys)))
        return kept[1]

    def matching(self, pod: Pod, namespaces: Mapping[str, Namespace]) -> list[E]:
        """Return the entries of the terms whose labels select the pod and that may be for its namespace.

        ``namespaces``: the namespaces that could be read, by name.
        """
        labels = pod.metadata.labels or {}
        scopes = self._scopes_of(pod.metadata.namespace, namespaces)
        candidates: list[tuple[PodAffinityTerm, E]] = []
        asked: list[_LabelOrKey] = ["", *labels, *labels.items()]
        for one in asked:
            found = self._terms.get(one, {})
            for scope in found if len(found) < len(scopes) else scopes:
                if scope in scopes:
                    candidates += found.get(scope, ())
        return [entry for term, entry in candidates if matches(term.label_selector, labels)]


def _key(pod: Pod) -> _Key:
    # The group keeps its first pod alive, so the ids of that pod's labels and affinity are not reused.
    return pod.metadata.namespace, id(pod.metadata.labels), id(pod.spec.affinity), pod.terminating


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of the pod's required anti-affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution or ()


def required_pod_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of the pod's required affinity to other pods."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required_during_scheduling_ignored_during_execution or ()


def scored_terms(pod: Pod) -> list[ScoredTerm]:
    """Return the terms of the pod that change the scores of other pods: its preferred terms, and its required affinity terms."""
    preferred = [*preferred_pod_affinity(pod), *preferred_anti_affinity(pod)]
    return preferred + [ScoredTerm(term, None) for term in required_pod_affinity(pod)]


def preferred_pod_affinity(pod: Pod) -> list[ScoredTerm]:
    """Return the preferred affinity terms of the pod."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return []
    preferred = affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution or ()
    return [ScoredTerm(one.pod_affinity_term, one.weight) for one in preferred]


def preferred_anti_affinity(pod: Pod) -> list[ScoredTerm]:
    """Return the preferred anti-affinity terms of the pod."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return []
    preferred = affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution or ()
    return [ScoredTerm(one.pod_affinity_term, -one.weight) for one in preferred]


def _required_labels(selector: LabelSelector | None) -> list[Label]:
    """Return the labels that every selected pod must have."""
    if selector is None:
        return []
    wanted = list((selector.match_labels or {}).items())
    for requirement in selector.match_expressions or ():
        values = requirement.values or ()
        if requirement.operator == "In" and len(values) == 1:
            wanted.append((requirement.key, values[0]))
    return wanted


def _required_keys(selector: LabelSelector | None) -> list[str]:
    """Return the label keys that every selected pod must have, with one of several values or with any value."""
    expressions = (selector.match_expressions if selector is not None else None) or ()
    return [requirement.key for requirement in expressions if requirement.operator in ("In", "Exists")]
