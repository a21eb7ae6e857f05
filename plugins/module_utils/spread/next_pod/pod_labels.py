# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Labels of a new pod, derived from the labels of the live pods.

Labels may change at any time: manually, by an operator that marks a leader, or at binding by the node's zone. A label that all live pods
have is expected on a new pod. A label in which they differ matters only if a selector uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model.api.meta import Labels, LabelSelector
from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.selectors.match_label_keys import selector_keys, term_selector_keys
from ...model.snapshot import ClusterSnapshot
from ...model.well_known import CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, REGION, STATEFUL_SET_POD_NAME, ZONE

_WRITTEN_LATER = frozenset((POD_TEMPLATE_HASH, CONTROLLER_REVISION_HASH, STATEFUL_SET_POD_NAME, POD_INDEX, ZONE, REGION))
"""Labels of a pod's revision and ordinal, and labels that the binding copies from the node (``plugin/pkg/admission/podtopologylabels``)."""


def labels_of_new_pod(pods: Sequence[Pod], workload: Workload, snapshot: ClusterSnapshot) -> tuple[Labels, str]:
    """Return the labels without those of controllers, and the field that is unknown and matters (empty if there is none).

    ``pods`` are the live pods of the current revision, at least one.
    """
    own = workload.spec.template.metadata.labels or {}
    # Pods of a Deployment share one mapping of labels (``model/interning.py``).
    distinct = list({id(pod.metadata.labels): pod.metadata.labels or {} for pod in pods}.values())
    first, others = distinct[0], distinct[1:]
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    for key in _WRITTEN_LATER:
        common.pop(key, None)
    labels = {**own, **common}
    differing = {key for other in others for key in other}.union(first) - common.keys() - _WRITTEN_LATER if others else set()
    if not differing:
        return labels, ""
    counted = differing & (_asked_by(pods) | snapshot.once(_AskedByOthers).keys(workload.metadata.namespace))
    return labels, f"metadata.labels[{min(counted)}]" if counted else ""


def _asked_by(pods: Iterable[Pod]) -> set[str]:
    specs = {(id(pod.spec.affinity), id(pod.spec.topology_spread_constraints)): pod.spec for pod in pods}
    return {key for spec in specs.values() for key in selector_keys(spec)}


class _AskedByOthers:
    """The label keys in required anti-affinity of the snapshot's pods, by the namespaces of the terms.

    Pods with such labels are kept away from the pods with the anti-affinity.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        # Imported here because only live pods that differ in a label need it.
        from ...model.selectors.selector_index import SelectorIndex
        from ...scheduler.affinity_term_index import required_anti_affinity

        self._labels = {name: namespace.metadata.labels for name, namespace in snapshot.namespaces.items()}
        self._named: dict[str, set[str]] = {}
        selectors: list[tuple[LabelSelector | None, set[str]]] = []
        found = {(id(pod.spec.affinity), pod.metadata.namespace): pod for pod in snapshot.pods if pod.spec.affinity is not None}
        for (_affinity, own), pod in found.items():
            for term in required_anti_affinity(pod):
                keys = term_selector_keys(term)
                names = term.namespaces or (() if term.namespace_selector is not None else (own,))
                for name in names:
                    self._named.setdefault(name, set()).update(keys)
                if term.namespace_selector is not None:
                    selectors.append((term.namespace_selector, keys))
        self._by_selector = SelectorIndex(selectors)
        self._by_any_selector = {key for _selector, keys in selectors for key in keys}
        self._known: dict[str, set[str]] = {}

    def keys(self, namespace: str) -> set[str]:
        """Return the label keys that the terms use for pods of the namespace.

        For a namespace that could not be read, return the keys of all namespace selectors.
        """
        known = self._known.get(namespace)
        if known is None:
            readable = namespace in self._labels
            selecting = self._by_selector.selecting(self._labels[namespace]) if readable else [self._by_any_selector]
            known = self._known[namespace] = self._named.get(namespace, set()).union(*selecting)
        return known
