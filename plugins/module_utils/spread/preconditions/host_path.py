# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the data of a StatefulSet is in a hostPath and would not move with its pods.

Other volumes that keep a pod on its node: ``spread/advice/volume_pinning.py``, and for victims ``rescue/victims/victim_costs.py``.
"""

from __future__ import annotations

import typing as t

from ...model.api.node import NodeSelectorTerm
from ...model.api.pod import PodSpec
from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot

WITHOUT_DATA = ("Socket", "CharDevice")
"""Types of a hostPath that hold no data of a pod."""

ABOUT_ALL_NODES = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch")
"""Labels that describe the platform of a node and do not select single nodes."""


def host_path_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the pods of a StatefulSet must stay on their nodes.

    None if their data moves with them. A StatefulSet with a node affinity of its own selects the nodes with its data. A PersistentVolume
    with a node affinity does the same.
    """
    if workload.kind != "StatefulSet" or _chooses_nodes(workload.spec.template.spec):
        return None
    found = _in_template(workload) or _in_claims(workload, snapshot)
    return Reason("host_path", f"a pod of {workload} would not have its data on another node: {found}") if found else None


def _in_template(workload: Workload) -> str:
    """Return a text about the template's hostPath volume that holds data; empty if there is none."""
    # The volume of a claim template replaces the template's volume of the same name.
    claims = {template.metadata.name for template in workload.spec.volume_claim_templates or ()}
    for volume in workload.spec.template.spec.volumes or ():
        if volume.host_path is None or volume.name in claims or volume.host_path.get("type") in WITHOUT_DATA:
            continue
        return f"its volume {volume.name} is the hostPath {volume.host_path.get('path', '')}, and the template has no node affinity"
    return ""


def _in_claims(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return a text about a pod's PersistentVolume that is a hostPath without node affinity; empty if there is none."""
    paths = snapshot.once(_host_paths)
    for pod in snapshot.owned_pods(workload) if paths else ():
        for volume in pod.spec.volumes or ():
            name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim is not None else ""
            claim = snapshot.claims.get((workload.metadata.namespace, name))
            path = paths.get(claim.spec.volume_name) if claim is not None else None
            if claim is not None and path is not None:
                said = f"PersistentVolume {claim.spec.volume_name} of its claim {name} is the hostPath {path}"
                return f"{said}, and the volume has no node affinity"
    return ""


def _host_paths(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Return the path of each PersistentVolume that is a hostPath and has no node affinity, by the volume's name."""
    specs = {volume.name: volume.spec for volume in (snapshot.storage.volumes if snapshot.storage is not None else ())}
    return {
        name: str(spec.host_path.get("path", ""))
        for name, spec in specs.items()
        if spec.host_path is not None and (spec.node_affinity is None or spec.node_affinity.required is None)
    }


def _chooses_nodes(spec: PodSpec) -> bool:
    if any(key not in ABOUT_ALL_NODES for key in spec.node_selector or ()):
        return True
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return bool(terms) and all(map(_is_choice, terms))


def _is_choice(term: NodeSelectorTerm) -> bool:
    return bool(term.match_fields) or any(expression.key not in ABOUT_ALL_NODES for expression in term.match_expressions or ())
