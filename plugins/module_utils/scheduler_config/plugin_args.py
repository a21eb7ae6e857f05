# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules for the arguments of in-tree plugins (``pkg/scheduler/apis/config/validation/validation_pluginargs.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping

from ..model.values.integers import parse_int64
from ..model.values.shown import shown_value
from ..model.values.validation import is_label_value, is_qualified_name
from .problem import NEEDS_GATE, Problem
from .values import duration_ns, list_of, mapping_of, number_of, text_of
from .versions import ConfigTarget

Args = Mapping[str, t.Any]

SCORING_TYPES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
QUALIFIED_FORM = "write a name such as example.com/gpu"
KEY_FORM = "write a key such as topology.kubernetes.io/zone"
SECOND_NS = 10**9


def args_problems(plugin: str, args: Args, path: str, target: ConfigTarget) -> Iterator[Problem]:
    """Yield the problems of the arguments of a plugin. A plugin without rules has none."""
    rule = _RULES.get(plugin)
    if rule is not None:
        yield from rule(args, path)
    for field, gate, last in _GATED_UP_TO.get(plugin, ()):
        if args.get(field) is not None and target.minors[1] <= last:
            yield _needs_gate(f"{path}.{field}", gate)


def fit_args_problems(args: Args, path: str, *, ignored_by_extenders: bool) -> Iterator[Problem]:
    """Yield the problems of NodeResourcesFit's arguments. kube-scheduler checks them only if the plugin is enabled.

    ``ignored_by_extenders``: the resources that extenders ignore replace ``ignoredResources``.
    """
    if not ignored_by_extenders:
        for number, name in enumerate(list_of(args.get("ignoredResources"))):
            if not is_qualified_name(text_of(name)):
                yield Problem(f"{path}.ignoredResources[{number}]", f"{shown_value(name)} is not the name of a resource", QUALIFIED_FORM)
    for number, group in enumerate(list_of(args.get("ignoredResourceGroups"))):
        if "/" in text_of(group) or not is_qualified_name(text_of(group)):
            place = f"{path}.ignoredResourceGroups[{number}]"
            yield Problem(place, f"{shown_value(group)} is not a group of resources", "write the part of their names before the slash")
    if args.get("scoringStrategy") is not None:
        yield from _strategy_problems(mapping_of(args["scoringStrategy"]), f"{path}.scoringStrategy")


def _strategy_problems(strategy: Args, path: str) -> Iterator[Problem]:
    kind = strategy.get("type")
    if kind not in SCORING_TYPES:
        yield Problem(f"{path}.type", f"{shown_value(kind)} is not a type of scoring", f"write one of {', '.join(SCORING_TYPES)}")
    for number, resource in enumerate(map(mapping_of, list_of(strategy.get("resources")))):
        yield from _range_problem(f"{path}.resources[{number}].weight", number_of(resource.get("weight")) or 1, 1, 100)
    ratio, place = strategy.get("requestedToCapacityRatio"), f"{path}.requestedToCapacityRatio"
    if kind == "RequestedToCapacityRatio":
        if ratio is None:
            yield Problem(place, "it is missing, and the type RequestedToCapacityRatio needs it", "add it with a shape")
        else:
            yield from _shape_problems(mapping_of(ratio).get("shape"), f"{place}.shape")
    elif ratio is not None:
        yield Problem(place, "it is allowed only with the type RequestedToCapacityRatio", "remove it, or set that type")


def _shape_problems(shape: t.Any, path: str) -> Iterator[Problem]:
    points = [mapping_of(point) for point in list_of(shape)]
    if not points:
        yield Problem(path, "it has no point", "add at least one point with utilization and score")
    uses = [number_of(point.get("utilization")) for point in points]
    for number, (before, after) in enumerate(zip(uses, uses[1:]), start=1):
        if before >= after:
            yield Problem(f"{path}[{number}].utilization", f"{after} is not larger than {before}", "sort the points by utilization")
            break
    for number, point in enumerate(points):
        yield from _range_problem(f"{path}[{number}].utilization", uses[number], 0, 100)
        yield from _range_problem(f"{path}[{number}].score", number_of(point.get("score")), 0, 10)


def _range_problem(path: str, value: int, least: int, most: t.Optional[int]) -> Iterator[Problem]:
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"a number from {least} to {most}"
        yield Problem(path, f"{value} is out of range", f"write {wanted}")


def _default_preemption(args: Args, path: str) -> Iterator[Problem]:
    share, count = number_of(args.get("minCandidateNodesPercentage"), 10), number_of(args.get("minCandidateNodesAbsolute"), 100)
    yield from _range_problem(f"{path}.minCandidateNodesPercentage", share, 0, 100)
    yield from _range_problem(f"{path}.minCandidateNodesAbsolute", count, 0, None)
    if share == 0 and count == 0:
        yield Problem(f"{path}.minCandidateNodesPercentage", "it and minCandidateNodesAbsolute are 0", "set one of them above 0")


def _inter_pod_affinity(args: Args, path: str) -> Iterator[Problem]:
    yield from _range_problem(f"{path}.hardPodAffinityWeight", number_of(args.get("hardPodAffinityWeight"), 1), 0, 100)


def _balanced_allocation(args: Args, path: str) -> Iterator[Problem]:
    seen = set()
    for number, resource in enumerate(map(mapping_of, list_of(args.get("resources")))):
        name = text_of(resource.get("name"))
        if name in seen:
            yield Problem(
                f"{path}.resources[{number}].name", f"the resource {shown_value(name)} is listed twice", "remove one of the entries"
            )
        seen.add(name)
        if number_of(resource.get("weight")) not in (0, 1):
            yield Problem(f"{path}.resources[{number}].weight", "all resources of this plugin have the weight 1", "write 1, or remove it")


def _pod_topology_spread(args: Args, path: str) -> Iterator[Problem]:
    kind = args.get("defaultingType") or "System"
    constraints = [mapping_of(one) for one in list_of(args.get("defaultConstraints"))]
    if kind not in ("System", "List"):
        yield Problem(f"{path}.defaultingType", f"{shown_value(kind)} is not a type of defaults", "write System or List")
    elif kind == "System" and constraints:
        yield Problem(f"{path}.defaultingType", "System does not allow defaultConstraints", "write List, or remove defaultConstraints")
    seen = set()
    for number, constraint in enumerate(constraints):
        place = f"{path}.defaultConstraints[{number}]"
        yield from _constraint_problems(constraint, place)
        key = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"))
        if key in seen:
            yield Problem(place, "an earlier entry has the same topologyKey and whenUnsatisfiable", "remove one of them")
        seen.add(key)


def _constraint_problems(constraint: Args, path: str) -> Iterator[Problem]:
    yield from _range_problem(f"{path}.maxSkew", number_of(constraint.get("maxSkew")), 1, None)
    key = constraint.get("topologyKey")
    if not is_qualified_name(text_of(key)):
        yield Problem(f"{path}.topologyKey", f"{shown_value(key)} is not the key of a label", KEY_FORM)
    action = constraint.get("whenUnsatisfiable")
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield Problem(f"{path}.whenUnsatisfiable", f"{shown_value(action)} is not allowed", "write DoNotSchedule or ScheduleAnyway")
    if constraint.get("labelSelector") is not None:
        yield Problem(f"{path}.labelSelector", "kube-scheduler derives the selector for each pod", "remove it")


def _node_affinity(args: Args, path: str) -> Iterator[Problem]:
    affinity, path = mapping_of(args.get("addedAffinity")), f"{path}.addedAffinity"
    required, place = "requiredDuringSchedulingIgnoredDuringExecution", f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for number, term in enumerate(list_of(mapping_of(affinity.get(required)).get("nodeSelectorTerms"))):
        yield from _term_problems(mapping_of(term), f"{place}.nodeSelectorTerms[{number}]")
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for number, entry in enumerate(map(mapping_of, list_of(affinity.get(preferred)))):
        if number_of(entry.get("weight")) != 0:
            yield from _term_problems(mapping_of(entry.get("preference")), f"{path}.{preferred}[{number}].preference")


def _term_problems(term: Args, path: str) -> Iterator[Problem]:
    for number, expression in enumerate(map(mapping_of, list_of(term.get("matchExpressions")))):
        yield from _expression_problems(expression, f"{path}.matchExpressions[{number}]")
    for number, expression in enumerate(map(mapping_of, list_of(term.get("matchFields")))):
        place = f"{path}.matchFields[{number}]"
        if expression.get("operator") not in ("In", "NotIn"):
            yield Problem(f"{place}.operator", f"{shown_value(expression.get('operator'))} is not allowed", "write In or NotIn")
        elif len(list_of(expression.get("values"))) != 1:
            yield Problem(f"{place}.values", "it does not have exactly one value", "write one value")


def _expression_problems(expression: Args, path: str) -> Iterator[Problem]:
    key, operator, values = expression.get("key"), expression.get("operator"), [text_of(one) for one in list_of(expression.get("values"))]
    if not is_qualified_name(text_of(key)):
        yield Problem(f"{path}.key", f"{shown_value(key)} is not the key of a label", KEY_FORM)
    wrong = _wrong_values(operator, values)
    if wrong is not None:
        field = "operator" if wrong[0].endswith("operator") else "values"
        yield Problem(f"{path}.{field}", *wrong)
    for value in values:
        if not is_label_value(value):
            yield Problem(f"{path}.values", f"{shown_value(value)} is not the value of a label", "correct the value")


def _wrong_values(operator: t.Any, values: list[str]) -> t.Optional[tuple[str, str]]:
    if operator in ("In", "NotIn"):
        return None if values else (f"{operator} needs at least one value", "add a value")
    if operator in ("Exists", "DoesNotExist"):
        return (f"{operator} allows no value", "remove the values") if values else None
    if operator in ("Gt", "Lt"):
        fits = len(values) == 1 and parse_int64(values[0]) is not None
        return None if fits else (f"{operator} needs exactly one whole number", "write one number in quotes")
    return (f"{shown_value(operator)} is not an operator", "write In, NotIn, Exists, DoesNotExist, Gt or Lt")


def _volume_binding(args: Args, path: str) -> Iterator[Problem]:
    yield from _range_problem(f"{path}.bindTimeoutSeconds", number_of(args.get("bindTimeoutSeconds"), 600), 0, None)
    if args.get("shape") is not None:
        yield _needs_gate(f"{path}.shape", "StorageCapacityScoring")
        if list_of(args["shape"]):
            yield from _shape_problems(args["shape"], f"{path}.shape")


def _dynamic_resources(args: Args, path: str) -> Iterator[Problem]:
    for name, least, wanted in (("filterTimeout", 0, "0s or more"), ("bindingTimeout", SECOND_NS, "at least 1s")):
        value = duration_ns(args.get(name))
        if value is not None and value < least:
            yield Problem(f"{path}.{name}", f"{args[name]} is too short", f"write {wanted}")


def _needs_gate(path: str, gate: str) -> Problem:
    message = f"kube-scheduler refuses it unless the feature gate {gate} is on"
    return Problem(path, message, "check that the gate is on, or remove the field", NEEDS_GATE)


_RULES: dict[str, Callable[[Args, str], Iterator[Problem]]] = {
    "DefaultPreemption": _default_preemption,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}
_GATED_UP_TO = {"DynamicResources": (("bindingTimeout", "DRADeviceBindingConditions", 35),)}
"""The fields by plugin that need a feature gate up to a minor version, because the gate is off by default there."""
