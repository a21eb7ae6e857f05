# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Advice on the rules of a workload's template that help its spread or counteract it."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Sequence

from ...model.api.pod import Pod, PodAffinity, PodAffinityTerm, PodSpec, PodTemplate
from ...model.api.workload import Workload
from ...model.reason import Advice, Reason
from ...model.selectors.label_selector import matches
from ...model.snapshot import ClusterSnapshot
from ...model.well_known import POD_TEMPLATE_HASH
from ..history import remembered_constraints
from ..spread_constraints import Json, constraint_patch, missing_constraints, template_patch

SCORING_DOES_NOT_SPREAD = "scoring_does_not_spread"
"""The code of the reason, and of the advice, if the scores of the scheduler would not spread the new pods better."""


def advise(
    workload: Workload,
    pod: Pod,
    snapshot: ClusterSnapshot,
    eligible: tuple[str, ...],
    *,
    topology_keys: Sequence[str],
    preference: t.Optional[Reason],
    pinned: bool,
    piled_by_scores: bool = False,
) -> list[Advice]:
    """Return all advice for the workload.

    ``pod`` is the next pod of the workload, and ``eligible`` are its eligible nodes. ``preference`` is the result of
    ``preferred_affinity_violation``. ``pinned``: volumes keep the pods in their domains. ``piled_by_scores``: the prediction is that the
    scores of the scheduler do not spread the new pods better.
    """
    template = workload.spec.template
    rules = _rules_against_scores if piled_by_scores else _missing_rules
    missing = () if pinned else rules(workload, pod, snapshot, eligible, topology_keys)
    advice = [*missing, *_constraints_without_match_label_keys(workload), *map(Advice, _foreign_selectors(template, pod))]
    advice += map(Advice, _constraints_of_restarts(workload))
    if preference is not None:
        advice.append(Advice(preference))
    return advice


def _missing_rules(
    workload: Workload, pod: Pod, snapshot: ClusterSnapshot, eligible: tuple[str, ...], topology_keys: Sequence[str]
) -> Iterable[Advice]:
    constraints = pod.spec.topology_spread_constraints or ()
    anti_affinity = _anti_affinity_terms(pod.spec)
    if not constraints and not anti_affinity:
        keys = ", ".join(topology_keys)
        text = f"add a topologySpreadConstraint or a pod anti-affinity over {keys}, so that new pods spread by themselves"
        missing = missing_constraints(workload, pod, snapshot, eligible, topology_keys)
        yield Advice(Reason("no_spreading_rule", text), constraint_patch(workload, missing))


def _rules_against_scores(
    workload: Workload, pod: Pod, snapshot: ClusterSnapshot, eligible: tuple[str, ...], topology_keys: Sequence[str]
) -> Iterable[Advice]:
    missing = missing_constraints(workload, pod, snapshot, eligible, topology_keys)
    keys = ", ".join(constraint.topology_key for constraint in missing)
    if missing:
        text = f"the scores of the scheduler put the new pods where they do not spread; add the spread constraint over {keys}"
        yield Advice(Reason(SCORING_DOES_NOT_SPREAD, text), constraint_patch(workload, missing))


def _constraints_without_match_label_keys(workload: Workload) -> Iterable[Advice]:
    # kubernetes#98215: the old pods count during a rollout, so the new pods may end up uneven.
    if workload.kind != "Deployment":
        return
    constraints = workload.spec.template.spec.topology_spread_constraints or ()
    number_of = Counter(constraint.topology_key for constraint in constraints)
    for constraint in constraints:
        key, label_keys = constraint.topology_key, constraint.match_label_keys or ()
        if POD_TEMPLATE_HASH not in label_keys:
            change = f"add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the spread constraint over {key}"
            entry: Json = {
                "topologyKey": key,
                "whenUnsatisfiable": constraint.when_unsatisfiable,
                "matchLabelKeys": [*label_keys, POD_TEMPLATE_HASH],
            }
            # A patch merges by the key, so it cannot change one of two constraints with the same key.
            patch = template_patch(workload, [entry]) if number_of[key] == 1 else {}
            yield Advice(Reason("old_pods_count", f"{change}; without it the old pods count during a rollout"), patch)


def _constraints_of_restarts(workload: Workload) -> Iterable[Reason]:
    keys = ", ".join(remembered_constraints(workload))
    if keys:
        text = f"k8s_rollout_restart has added the spread constraint over {keys}, and the replicas are uneven again"
        yield Reason("added_constraint", f"{text}: it is soft; whenUnsatisfiable: DoNotSchedule makes it a requirement")


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
