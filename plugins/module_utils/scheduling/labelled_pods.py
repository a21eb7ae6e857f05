# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that a label selector selects, found without a look at all pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.objects import LabelSelector, Pod
from ..model.selectors import matches
from ..model.snapshot import ClusterSnapshot

_ByValue = dict[str, list[Pod]]


class LabelledPods:
    """The bound pods of a snapshot that have not finished, indexed by namespace and label key when a selector first needs one."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._indexes: dict[tuple[str, str], _ByValue] = {}

    def select(self, namespace: str, selector: LabelSelector | None) -> Iterator[Pod]:
        """The pods of the namespace that the selector selects, those on their way out as well."""
        if selector is None:
            return iter(())
        return (pod for pod in self._candidates(namespace, selector) if matches(selector, pod.metadata.labels))

    def _candidates(self, namespace: str, selector: LabelSelector) -> Sequence[Pod]:
        """The fewest pods that are sure to hold all that are selected."""
        found: Sequence[Pod] | None = None
        for key, values in _needed_labels(selector):
            by_value = self._index(namespace, key)
            pods = [pod for value in set(values) for pod in by_value.get(value, ())]
            if not pods:
                return ()
            if found is None or len(pods) < len(found):
                found = pods
        return found if found is not None else _placed(self._snapshot, namespace)

    def _index(self, namespace: str, key: str) -> _ByValue:
        index = self._indexes.get((namespace, key))
        if index is None:
            index = self._indexes[namespace, key] = {}
            for pod in _placed(self._snapshot, namespace):
                value = (pod.metadata.labels or {}).get(key)
                if value is not None:
                    index.setdefault(value, []).append(pod)
        return index


def _placed(snapshot: ClusterSnapshot, namespace: str) -> list[Pod]:
    return [pod for pod in snapshot.pods_by_namespace.get(namespace, ()) if pod.spec.node_name and not pod.terminal]


def _needed_labels(selector: LabelSelector) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Label keys that every selected pod has, with the values of which it has one."""
    for key, value in (selector.match_labels or {}).items():
        yield key, (value,)
    for requirement in selector.match_expressions or ():
        if requirement.operator == "In":
            yield requirement.key, requirement.values or ()
