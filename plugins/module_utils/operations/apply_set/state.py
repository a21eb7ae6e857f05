# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Removes what the programs and the modules have written in the cluster beside their own objects."""

from __future__ import annotations

from ...kube.client.errors import NotFoundError
from ...state.restart_outcome import OUTCOME_ANNOTATION
from .cluster import ObjectsApi
from .objects import Reference, reference_of
from .options import Outcome

NAMES = ("kube-scheduling-rebalance", "kube-scheduling-rescue")
KINDS = (("coordination.k8s.io/v1", "Lease"), ("v1", "ConfigMap"))
WITH_OUTCOME = ("Deployment", "StatefulSet", "ReplicaSet", "ControllerRevision")
"""A Deployment copies its annotations to its ReplicaSets, and a StatefulSet to its ControllerRevisions, so those are last."""


def remove_state(api: ObjectsApi, outcome: Outcome, *, check_mode: bool) -> None:
    """Delete the Leases and the ConfigMaps, and remove the outcomes of workloads. Raises KubeError."""
    for reference in (Reference(version, kind, "kube-system", name) for version, kind in KINDS for name in NAMES):
        found = api.find(reference)
        if found is not None:
            outcome.note(reference, "deleted", found, None)
            if not check_mode:
                api.delete(reference, found["metadata"]["uid"])
    for kind in WITH_OUTCOME:
        items = api.list_plain("apps/v1", kind, namespace="")
        for reference in [reference_of(item) for item in items if OUTCOME_ANNOTATION in (item["metadata"].get("annotations") or {})]:
            outcome.outcomes.append(f"the outcome on {reference.text}")
            if not check_mode:
                try:
                    api.remove_annotation(reference, OUTCOME_ANNOTATION)
                except NotFoundError:
                    continue  # it was deleted meanwhile
