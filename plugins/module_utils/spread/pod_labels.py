# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Labels of a new pod, by those of the live ones.

Labels change at any time: by hand, by an operator that marks a leader, at binding by the node's zone. Only what all live pods have is
taken to come with a new one, and a label in which they differ matters only to selectors that ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.label_keys import keys_of
from ..model.labels import CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, REGION, STATEFUL_SET_POD_NAME, ZONE
from ..model.objects import Labels, Pod, Workload
from ..model.snapshot import ClusterSnapshot
from ..scheduling.pod_groups import required_anti_affinity

_WRITTEN_LATER = frozenset((POD_TEMPLATE_HASH, CONTROLLER_REVISION_HASH, STATEFUL_SET_POD_NAME, POD_INDEX, ZONE, REGION))
"""Labels of a pod's revision and ordinal, and of its node: the binding copies these (``plugin/pkg/admission/podtopologylabels``)."""


def labels_of_new_pod(pods: Sequence[Pod], workload: Workload, snapshot: ClusterSnapshot) -> tuple[Labels, str]:
    """The labels without those that controllers add, and the field that is not known and matters (empty where none).

    ``pods``: the live ones of the current revision, at least one.
    """
    own = workload.spec.template.metadata.labels or {}
    # Pods of a Deployment share one mapping of labels (``model/sharing.py``).
    distinct = list({id(pod.metadata.labels): pod.metadata.labels or {} for pod in pods}.values())
    first, others = distinct[0], distinct[1:]
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    for key in _WRITTEN_LATER:
        common.pop(key, None)
    labels = {**own, **common}
    differing = {key for other in others for key in other}.union(first) - common.keys() - _WRITTEN_LATER if others else set()
    if not differing:
        return labels, ""
    counted = differing & (_asked_by(pods) | snapshot.once(_asked_by_others))
    return labels, f"metadata.labels[{min(counted)}]" if counted else ""


def _asked_by(pods: Iterable[Pod]) -> set[str]:
    specs = {(id(pod.spec.affinity), id(pod.spec.topology_spread_constraints)): pod.spec for pod in pods}
    return {key for spec in specs.values() for key in keys_of(spec)}


def _asked_by_others(snapshot: ClusterSnapshot) -> set[str]:
    """The labels that required anti-affinity of any pod asks for: its pods keep away those that it selects."""
    by_affinity = {id(pod.spec.affinity): pod for pod in snapshot.pods if pod.spec.affinity is not None}
    return {key for pod in by_affinity.values() if required_anti_affinity(pod) for key in keys_of(pod.spec)}
