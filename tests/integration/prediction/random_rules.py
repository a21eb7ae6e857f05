# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random pod specs of workloads: affinities, spread constraints and tolerations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import HOST, RACK, ZONE, CaseNode, Json
from tests.integration.prediction.random_fillers import APPS
from tests.integration.prediction.random_nodes import HARD_TAINT, OLD_TAINT, SOFT_TAINT

ALWAYS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHTS = (1, 10, 50, 100)


@dataclass(frozen=True)
class Rules:
    """Fields of a pod spec that restrict or prefer nodes. ``allows``: whether its replicas may run on a node now.

    ``one_per_node``: no two replicas may run on one node.
    """

    spec: Json
    allows: Callable[[CaseNode], bool]
    one_per_node: bool


def random_rules(choices: Choices, name: str, *, revisions: bool) -> Rules:
    """Return the rules of a workload's pods. ``revisions``: the pods have the hash of their template as a label."""
    spec: Json = {}
    selected: dict[str, str] = {}
    affinity: Json = {}
    tolerates = choices.chance(0.4)
    if tolerates:
        spec["tolerations"] = choices.choice(([_toleration(HARD_TAINT)], [_toleration(HARD_TAINT), _toleration(SOFT_TAINT)]))
    elif choices.chance(0.15):
        spec["tolerations"] = [choices.choice((_toleration(SOFT_TAINT), _toleration(OLD_TAINT), {"operator": "Exists"}))]
        tolerates = "key" not in spec["tolerations"][0]
    if choices.chance(0.08):
        selected = {"disk": "ssd"}
        spec["nodeSelector"] = selected
    if choices.chance(0.2):
        affinity["nodeAffinity"] = {PREFERRED: [_preferred_nodes(choices)]}
    one_per_node = _pod_affinities(choices, name, affinity)
    if affinity:
        spec["affinity"] = affinity
    if choices.chance(0.4):
        spec["topologySpreadConstraints"] = _constraints(choices, name, revisions=revisions)

    def allows(node: CaseNode) -> bool:
        tolerates_taints = tolerates or HARD_TAINT not in node.taints
        return tolerates_taints and all(node.labels.get(key) == value for key, value in selected.items())

    return Rules(spec, allows, one_per_node)


def _toleration(taint: Json) -> Json:
    operator = {"operator": "Equal", "value": taint["value"]} if "value" in taint else {"operator": "Exists"}
    return {"key": taint["key"], "effect": taint["effect"], **operator}


def _preferred_nodes(choices: Choices) -> Json:
    expression = choices.choice(
        (
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": ZONE, "operator": "In", "values": ["zone-a"]},
            {"key": ZONE, "operator": "NotIn", "values": ["zone-a"]},
            {"key": RACK, "operator": "Exists"},
        )
    )
    return {"weight": choices.choice(WEIGHTS), "preference": {"matchExpressions": [expression]}}


def _pod_affinities(choices: Choices, name: str, affinity: Json) -> bool:
    """Add the affinities to other pods. Return whether no two replicas may run on one node."""
    own, other = {"app": name}, choices.choice(({"app": choices.choice(APPS)}, {"tier": "back"}, {"tier": "front"}))
    one_per_node = False
    anti: Json = {}
    pod_affinity: Json = {}
    if choices.chance(0.1):
        anti[ALWAYS] = [_term(HOST, own)]
        one_per_node = True
    elif choices.chance(0.04):
        anti[ALWAYS] = [_term(ZONE, own)]
    if choices.chance(0.15):
        anti[PREFERRED] = [_preferred(choices, choices.choice((HOST, ZONE, RACK)), choices.choice((own, own, other)))]
    if choices.chance(0.12):
        pod_affinity[PREFERRED] = [_preferred(choices, choices.choice((HOST, ZONE)), choices.choice((own, other, other)))]
    if choices.chance(0.05):
        pod_affinity[ALWAYS] = [_term(choices.choice((ZONE, RACK)), own)]
    if anti:
        affinity["podAntiAffinity"] = anti
    if pod_affinity:
        affinity["podAffinity"] = pod_affinity
    return one_per_node


def _term(key: str, labels: Json) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _preferred(choices: Choices, key: str, labels: Json) -> Json:
    return {"weight": choices.choice(WEIGHTS), "podAffinityTerm": _term(key, labels)}


def _constraints(choices: Choices, name: str, *, revisions: bool) -> list[Json]:
    keys = choices.sample((HOST, ZONE, RACK), choices.choice((1, 1, 2)))
    return [_constraint(choices, name, key, revisions=revisions) for key in keys]


def _constraint(choices: Choices, name: str, key: str, *, revisions: bool) -> Json:
    hard = choices.chance(0.3)
    found: Json = {
        "topologyKey": key,
        "maxSkew": choices.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    if revisions and choices.chance(0.3):
        found["matchLabelKeys"] = ["pod-template-hash"]
    if choices.chance(0.2):
        found["nodeTaintsPolicy"] = "Honor"
    if choices.chance(0.1):
        found["nodeAffinityPolicy"] = "Ignore"
    if hard and choices.chance(0.15):
        found["minDomains"] = 2
    return found
