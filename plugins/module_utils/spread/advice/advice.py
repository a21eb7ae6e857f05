# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Advice on the rules of a workload's template that help its spread or counteract it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ...model.api.pod import Pod, PodAffinity, PodAffinityTerm, PodSpec, PodTemplate
from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.selectors.label_selector import matches
from ...model.well_known import POD_TEMPLATE_HASH


def advise(workload: Workload, pod: Pod, *, topology_keys: Sequence[str], preference: t.Optional[Reason], pinned: bool) -> list[Reason]:
    """Return all advice for the workload.

    ``pod`` is the next pod of the workload. ``preference`` is the result of ``preferred_affinity_violation``. ``pinned``: volumes
    keep the pods in their domains.
    """
    template = workload.spec.template
    missing = () if pinned else _missing_rules(pod, topology_keys)
    advice = [*missing, *_constraints_without_match_label_keys(workload), *_foreign_selectors(template, pod)]
    if preference is not None:
        advice.append(preference)
    return advice


def _missing_rules(pod: Pod, topology_keys: Sequence[str]) -> Iterable[Reason]:
    constraints = pod.spec.topology_spread_constraints or ()
    anti_affinity = _anti_affinity_terms(pod.spec)
    if not constraints and not anti_affinity:
        keys = ", ".join(topology_keys)
        text = f"add a topologySpreadConstraint or a pod anti-affinity over {keys}, so that new pods spread by themselves"
        yield Reason("no_spreading_rule", text)


def _constraints_without_match_label_keys(workload: Workload) -> Iterable[Reason]:
    # kubernetes#98215: the old pods count during a rollout, so the new pods may end up uneven.
    if workload.kind != "Deployment":
        return
    for constraint in workload.spec.template.spec.topology_spread_constraints or ():
        if POD_TEMPLATE_HASH not in (constraint.match_label_keys or ()):
            change = f"add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the spread constraint over {constraint.topology_key}"
            yield Reason("old_pods_count", f"{change}; without it the old pods count during a rollout")


def _foreign_selectors(template: PodTemplate, pod: Pod) -> Iterable[Reason]:
    for term in _anti_affinity_terms(template.spec):
        if not matches(term.label_selector, pod.metadata.labels):
            key = term.topology_key
            text = f"the anti-affinity over {key} does not select the workload's own pods; make its selector match their labels"
            yield Reason("anti_affinity_misses_itself", text)


def _anti_affinity_terms(spec: PodSpec) -> list[PodAffinityTerm]:
    affinity = spec.affinity
    return _terms(affinity.pod_anti_affinity if affinity is not None else None)


def _terms(pod_affinity: t.Optional[PodAffinity]) -> list[PodAffinityTerm]:
    if pod_affinity is None:
        return []
    soft = pod_affinity.preferred_during_scheduling_ignored_during_execution or ()
    return [*(pod_affinity.required_during_scheduling_ignored_during_execution or ()), *(term.pod_affinity_term for term in soft)]
