# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods with so many rules that the filters would run for minutes on all nodes.

The API server admits tens of thousands of terms, constraints, tolerations, host ports, resources or volumes in one pod. Each of them is
checked on each node. No ordinary pod needs more than a few.
"""

from __future__ import annotations

import typing as t

from ...model.api.pod import Affinity, Container, NodeAffinity, PodAffinity, PodSpec, ResourceRequirements, Toleration, with_containers
from ...model.codec import replace
from ...model.reason import PASSED, Reason, Reasons
from ...model.well_known import BASIC_RESOURCES

MAX_RULES = 200


def without_excess_rules(spec: PodSpec) -> tuple[PodSpec, Reasons]:
    """Return the spec without each kind of rules of which it has too many, and a reason for each such kind.

    Return the same spec if no kind has too many. The remaining rules reject no node that the whole pod would pass.
    """
    left, unknowns = spec, PASSED
    for field, count, without in _KINDS:
        number = count(spec)
        if number > MAX_RULES:
            left = without(left)
            text = f"{field} has {number} entries, and no more than {MAX_RULES} are checked"
            unknowns = (*unknowns, Reason("too_many_rules", text))
    return left, unknowns


# --- counting ---------------------------------------------------------------------------------------------------------


def _affinity(spec: PodSpec) -> int:
    affinity = spec.affinity
    if affinity is None:
        return 0
    return _node_terms(affinity.node_affinity) + _pod_terms(affinity.pod_affinity) + _pod_terms(affinity.pod_anti_affinity)


def _node_terms(affinity: t.Optional[NodeAffinity]) -> int:
    if affinity is None:
        return 0
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = [*(required.node_selector_terms if required is not None else ())]
    terms += [soft.preference for soft in affinity.preferred_during_scheduling_ignored_during_execution or ()]
    return sum(1 + len(term.match_expressions or ()) + len(term.match_fields or ()) for term in terms)


def _pod_terms(affinity: t.Optional[PodAffinity]) -> int:
    if affinity is None:
        return 0
    terms = [*(affinity.required_during_scheduling_ignored_during_execution or ())]
    terms += [soft.pod_affinity_term for soft in affinity.preferred_during_scheduling_ignored_during_execution or ()]
    selectors = [term.label_selector for term in terms if term.label_selector is not None]
    return len(terms) + sum(len(selector.match_labels or ()) + len(selector.match_expressions or ()) for selector in selectors)


def _constraints(spec: PodSpec) -> int:
    constraints = spec.topology_spread_constraints or ()
    selectors = [one.label_selector for one in constraints if one.label_selector is not None]
    return len(constraints) + sum(len(selector.match_labels or ()) + len(selector.match_expressions or ()) for selector in selectors)


def _ports(spec: PodSpec) -> int:
    ports = [port for container in spec.all_containers for port in container.ports or ()]
    return len(ports) if spec.host_network else len([port for port in ports if port.host_port])


def _resources(spec: PodSpec) -> int:
    parts = [container.resources for container in spec.all_containers if container.resources is not None]
    return len({name for part in parts for name in (*(part.requests or ()), *(part.limits or ()))})


# --- reduced specs ----------------------------------------------------------------------------------------------------


def _only_basic(container: Container) -> Container:
    resources = container.resources or ResourceRequirements()
    kept = [
        {name: text for name, text in (part or {}).items() if name in BASIC_RESOURCES} for part in (resources.requests, resources.limits)
    ]
    return replace(container, resources=ResourceRequirements(kept[0], kept[1]))


_KINDS: tuple[tuple[str, t.Callable[[PodSpec], int], t.Callable[[PodSpec], PodSpec]], ...] = (
    ("spec.affinity", _affinity, lambda spec: replace(spec, affinity=Affinity())),
    ("spec.topologySpreadConstraints", _constraints, lambda spec: replace(spec, topology_spread_constraints=None)),
    (
        "spec.tolerations",
        lambda spec: len(spec.tolerations or ()),
        lambda spec: replace(spec, tolerations=(Toleration(operator="Exists"),)),
    ),
    ("spec.nodeSelector", lambda spec: len(spec.node_selector or ()), lambda spec: replace(spec, node_selector=None)),
    ("spec.volumes", lambda spec: len(spec.volumes or ()), lambda spec: replace(spec, volumes=None)),
    ("spec.containers[].ports", _ports, lambda spec: with_containers(spec, lambda one: replace(one, ports=None))),
    ("spec.containers[].resources", _resources, lambda spec: with_containers(spec, _only_basic)),
)
