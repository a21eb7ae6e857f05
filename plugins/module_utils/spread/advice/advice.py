# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Advice on the rules of a workload's template that help its spread or counteract it."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ...model.api.pod import Pod, PodAffinity, PodAffinityTerm, PodSpec, PodTemplate, TopologySpreadConstraint
from ...model.api.workload import Workload
from ...model.codec import decode_json, encode_json, replace
from ...model.reason import Advice, Reason
from ...model.selectors.label_selector import matches, selected_keys
from ...model.snapshot import ClusterSnapshot
from ...model.well_known import POD_TEMPLATE_HASH
from ..history import remembered_constraints
from ..spread_constraints import Json, constraint_patch, missing_constraints, template_patch, with_constraints

DO_NOT_SCHEDULE = "DoNotSchedule"

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
    helps: t.Optional[t.Callable[[Workload], bool]] = None,
    soft_is_predicted: bool = False,
) -> list[Advice]:
    """Return all advice for the workload.

    ``pod`` is the next pod of the workload, and ``eligible`` are its eligible nodes. ``preference`` is the result of
    ``preferred_affinity_reason``. ``pinned``: volumes keep the pods in their domains. ``helps``: given if the prediction is that the scores
    of the scheduler do not spread the new pods better. It returns whether a restart with another pod template certainly helps.
    ``soft_is_predicted``: that prediction is for a restart that adds the missing constraints.
    """
    template = workload.spec.template
    advice: list[Advice] = []
    if not pinned and (helps is not None or not _has_spreading_rule(pod.spec)):
        missing = missing_constraints(workload, pod, snapshot, eligible, topology_keys)
        if helps is None:
            advice.append(_advice_without_rules(workload, missing, topology_keys))
        elif missing:
            advice.append(_advice_against_scores(workload, missing, topology_keys, helps, soft_is_predicted=soft_is_predicted))
    advice += [*_constraints_without_match_label_keys(workload), *map(Advice, _foreign_selectors(template, pod))]
    advice += map(Advice, _constraints_of_restarts(workload))
    if preference is not None:
        advice.append(Advice(preference))
    return advice


def _has_spreading_rule(spec: PodSpec) -> bool:
    return bool(spec.topology_spread_constraints or _anti_affinity_terms(spec))


def _advice_without_rules(workload: Workload, missing: Sequence[TopologySpreadConstraint], topology_keys: Sequence[str]) -> Advice:
    keys = ", ".join(topology_keys)
    text = f"add a topologySpreadConstraint or a pod anti-affinity over {keys}, so that new pods spread by themselves"
    return Advice(Reason("no_spreading_rule", text), constraint_patch(workload, missing))


def _advice_against_scores(
    workload: Workload,
    missing: Sequence[TopologySpreadConstraint],
    topology_keys: Collection[str],
    helps: t.Callable[[Workload], bool],
    *,
    soft_is_predicted: bool,
) -> Advice:
    """Return the advice with the first of two patches with which a restart helps. It has no patch if none does.

    1. The ``missing`` constraints as they are. Most are soft, so a node with higher scores of other plugins may still get all pods.
    2. The same with DoNotSchedule for the topology keys. Other keys only replace the default constraints of the scheduler and stay soft.
    """
    keys = ", ".join(constraint.topology_key for constraint in missing)
    cause = "the scores of the scheduler put the new pods where they do not spread"
    if not soft_is_predicted and helps(with_constraints(workload, missing)):
        text = f"{cause}; add the spread constraint over {keys}"
        return Advice(Reason(SCORING_DOES_NOT_SPREAD, text), constraint_patch(workload, missing))
    hard = [replace(one, when_unsatisfiable=DO_NOT_SCHEDULE) if one.topology_key in topology_keys else one for one in missing]
    if hard != [*missing] and helps(with_constraints(workload, hard)):
        required = ", ".join(one.topology_key for one in hard if one.when_unsatisfiable == DO_NOT_SCHEDULE)
        text = f"{cause}, and a soft constraint would not be enough; add the spread constraint with DoNotSchedule over {required}"
        text = f"{text}; a pod then stays pending while no node satisfies it"
        return Advice(Reason(SCORING_DOES_NOT_SPREAD, text), constraint_patch(workload, hard))
    text = f"{cause}, and no spread constraint over {keys} is certain to change that, also not with DoNotSchedule"
    return Advice(Reason(SCORING_DOES_NOT_SPREAD, text))


def _constraints_without_match_label_keys(workload: Workload) -> Iterable[Advice]:
    """Yield the advice to count only the new pods during a rollout (kubernetes#98215).

    The API server does not allow matchLabelKeys without a labelSelector, and no key that is also in the labelSelector (kubernetes
    ``pkg/apis/core/validation/validation.go``, ValidateMatchLabelKeysInTopologySpread).
    """
    if workload.kind != "Deployment":
        return
    constraints = workload.spec.template.spec.topology_spread_constraints or ()
    number_of = Counter(constraint.topology_key for constraint in constraints)
    for constraint in constraints:
        key, label_keys = constraint.topology_key, constraint.match_label_keys or ()
        selector = workload.spec.selector if constraint.label_selector is None else constraint.label_selector
        if selector is None or POD_TEMPLATE_HASH in (*label_keys, *selected_keys(selector)):
            continue
        entry: Json = {
            "topologyKey": key,
            "whenUnsatisfiable": constraint.when_unsatisfiable,
            "matchLabelKeys": [*label_keys, POD_TEMPLATE_HASH],
        }
        text = f"add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the spread constraint over {key}"
        text += "; without it the old pods count during a rollout"
        if constraint.label_selector is None:
            entry["labelSelector"] = decode_json(dict[str, t.Any], encode_json(selector))
            text = f"add the labelSelector of the workload and matchLabelKeys: [{POD_TEMPLATE_HASH}] to the spread constraint over {key}"
            text += "; without a labelSelector it counts no pod"
        # A patch merges by the key, so it cannot change one of two constraints with the same key.
        patch = template_patch(workload, [entry]) if number_of[key] == 1 else {}
        yield Advice(Reason("old_pods_count", text), patch)


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
