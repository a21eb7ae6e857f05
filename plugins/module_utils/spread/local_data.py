# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""StatefulSets whose data is in a folder of the node: a pod that moves to another node leaves its data behind."""

from __future__ import annotations

import typing as t

from ..model.objects import NodeSelectorTerm, PodSpec, Workload
from ..model.reasons import Reason

WITHOUT_DATA = ("Socket", "CharDevice")
"""Types of a hostPath that hold no data of a pod."""

ABOUT_ALL_NODES = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch")
"""Labels that say what a node is able to run, and not which one is meant."""


def local_data(workload: Workload) -> t.Optional[Reason]:
    """Return why the pods of a StatefulSet must stay on their nodes; None where its data moves with them.

    With a node affinity of its own the StatefulSet itself says on which nodes its data is.
    """
    if workload.kind != "StatefulSet" or _chooses_nodes(workload.spec.template.spec):
        return None
    # The volume of a claim template takes the place of the template's volume with its name.
    claims = {template.metadata.name for template in workload.spec.volume_claim_templates or ()}
    for volume in workload.spec.template.spec.volumes or ():
        if volume.host_path is None or volume.name in claims or volume.host_path.get("type") in WITHOUT_DATA:
            continue
        said = f"its volume {volume.name} is the hostPath {volume.host_path.get('path', '')}, and no node affinity says where it is"
        return Reason("host_path", f"a pod of {workload} would leave its data behind on another node: {said}")
    return None


def _chooses_nodes(spec: PodSpec) -> bool:
    if any(key not in ABOUT_ALL_NODES for key in spec.node_selector or ()):
        return True
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return bool(terms) and all(map(_is_choice, terms))


def _is_choice(term: NodeSelectorTerm) -> bool:
    return bool(term.match_fields) or any(expression.key not in ABOUT_ALL_NODES for expression in term.match_expressions or ())
