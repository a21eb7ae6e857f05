# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The namespaces whose pods an affinity term selects (kubernetes ``plugins/interpodaffinity/plugin.go``).

If a term selects namespaces by labels and the labels of a namespace could not be read, it is not known whether the term selects the pods of
that namespace.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..model.api.namespace import Namespace
from ..model.api.pod import Pod, PodAffinityTerm
from ..model.reason import Reason, Reasons
from ..model.selectors.label_selector import matches

NAMESPACE_NOT_READ: Reasons = (Reason("namespace_labels", "a pod affinity term asks for labels of a namespace that could not be read"),)


def incoming_term_selects(term: PodAffinityTerm, pod: Pod, other: Pod, known: Mapping[str, Namespace]) -> bool | None:
    """Return whether a term of the pod to be scheduled is for pods in the namespace of the pod ``other``.

    Return None if the labels of the namespace are needed and not known. kube-scheduler 1.36 first finds the namespaces that the selector
    matches, and then also applies the selector to a namespace without labels. A selector that matches an empty set of labels, such as
    NotIn, is therefore for every namespace.
    """
    selector = term.namespace_selector
    if selector is not None and matches(selector, None):
        return True
    return placed_term_selects(term, pod, other, known)


def placed_term_selects(term: PodAffinityTerm, owner: Pod, other: Pod, known: Mapping[str, Namespace]) -> bool | None:
    """Return whether a term of a pod on a node is for pods in the namespace of the pod ``other``. Return None if that is not known.

    ``owner``: the pod that has the term. ``known``: the namespaces that could be read, by name.
    """
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
