# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods with thousands of rules, as the API server admits them from any tenant."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import PodSpec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.unknowns.too_many_rules import (
    MAX_RULES,
    without_excess_rules,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions

from tests.unit.support.cluster import feasibility_of, workers
from tests.unit.support.objects import node, pod

MANY = 5_000


def exists(number: int) -> dict[str, t.Any]:
    return {"key": f"key-{number}", "operator": "Exists"}


def affinity(count: int, part: str = "nodeAffinity") -> dict[str, t.Any]:
    terms: t.Any = [{"matchExpressions": [exists(number)]} for number in range(count)]
    if part == "nodeAffinity":
        return {"affinity": {part: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}
    pods = [{"topologyKey": "zone", "labelSelector": term} for term in terms]
    return {"affinity": {part: {"requiredDuringSchedulingIgnoredDuringExecution": pods}}}


def constraints(count: int) -> dict[str, t.Any]:
    common = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"topologySpreadConstraints": [{**common, "topologyKey": f"key-{number}"} for number in range(count)]}


def one_container(count: int, **of_each: t.Any) -> dict[str, t.Any]:
    ports = [{"containerPort": number, "hostPort": number} for number in range(1, count + 1)] if "ports" in of_each else []
    requests = {f"example.com/res-{number}": "1" for number in range(count)} if "resources" in of_each else {}
    return {"containers": [{"name": "main", "ports": ports, "resources": {"requests": requests}}]}


KINDS: dict[str, t.Callable[[int], dict[str, t.Any]]] = {
    "spec.affinity": affinity,
    "spec.topologySpreadConstraints": constraints,
    "spec.tolerations": lambda count: {"tolerations": [{"key": f"key-{number}"} for number in range(count)]},
    "spec.nodeSelector": lambda count: {"nodeSelector": {f"key-{number}": "" for number in range(count)}},
    "spec.volumes": lambda count: {"volumes": [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(count)]},
    "spec.containers[].ports": lambda count: one_container(count, ports=True),
    "spec.containers[].resources": lambda count: one_container(count, resources=True),
}


@pytest.mark.parametrize("field", KINDS)
def test_a_pod_with_thousands_of_rules_is_unknown_by_the_name_of_the_field(field: str) -> None:
    nodes = [node(f"node-{number}", taints=[{"key": "some", "effect": "NoSchedule"}]) for number in range(3)]
    found = feasibility_of(pod(**KINDS[field](MANY)), nodes)
    assert [reason.code for reason in found.unknown if reason.code == "too_many_rules"] == ["too_many_rules"]
    assert any(reason.text.startswith(f"{field} has ") for reason in found.unknown)
    assert field != "spec.tolerations" or len(found.feasible) == 3, "what is left out rejects no node"


@pytest.mark.parametrize("field", KINDS)
def test_a_pod_with_a_few_rules_is_judged_by_all_of_them(field: str) -> None:
    spec = decode_json(PodSpec, encode_json(KINDS[field](MAX_RULES // 3)))
    assert without_excess_rules(spec) == (spec, ()) and without_excess_rules(spec)[0] is spec


@pytest.mark.parametrize("part", ["nodeAffinity", "podAffinity", "podAntiAffinity"])
def test_a_workload_with_thousands_of_terms_is_unknown_and_holds_no_other_up(part: str) -> None:
    cluster = workers(3)
    cluster.deployment("odd", ["worker-1"] * 2, template={"spec": affinity(MANY, part)})
    cluster.deployment("web", ["worker-1"] * 2)
    lines = {line.workload.metadata.name: line for line in check_spread(cluster.snapshot(), CheckOptions()).workloads}
    odd, web = lines["odd"].prediction, lines["web"].prediction
    assert odd is not None and odd.restart_helps is None
    assert [blocker.reason.code for blocker in odd.blockers] == ["too_many_rules"]
    assert web is not None and web.restart_helps is True
