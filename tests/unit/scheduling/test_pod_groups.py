# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Which terms of other pods are compared with a pod at all: a tenant's terms for its own namespace cost the others nothing."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.pod_groups import PodGroups

from tests.unit.scheduling.builders import pod

KEY = "app"


def repelled(selector: t.Any, labels: dict[str, str], namespace: str, **term: t.Any) -> bool:
    """Whether a term of a pod in namespace ``tenant`` is one of those that select a pod with the labels."""
    terms = [{"topologyKey": "zone", "labelSelector": selector, **term}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    owner = pod(on="node-1", namespace="tenant", affinity=affinity)
    other = pod(namespace=namespace, labels=labels)
    return bool(PodGroups.of([owner]).repelling(other))


SELECTORS = [
    {},
    {"matchLabels": {KEY: "web"}},
    {"matchExpressions": [{"key": KEY, "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": KEY, "operator": "Exists"}]},
    {"matchExpressions": [{"key": KEY, "operator": "NotIn", "values": ["db"]}]},
    {"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]},
]


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_term_for_its_own_namespace_is_no_matter_of_others(selector: t.Any) -> None:
    assert repelled(selector, {KEY: "web"}, "tenant")
    assert not repelled(selector, {KEY: "web"}, "default")


@pytest.mark.parametrize(
    "reach", [{"namespaces": ["default"]}, {"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}]
)
@pytest.mark.parametrize("selector", SELECTORS)
def test_a_term_that_may_reach_other_namespaces_is_found_from_there(selector: t.Any, reach: t.Any) -> None:
    assert repelled(selector, {KEY: "web"}, "default", **reach)


def test_labels_that_a_term_does_not_select_are_left_out() -> None:
    for selector in SELECTORS[1:4]:
        assert not repelled(selector, {"track": "web"}, "tenant")
        assert not repelled(selector, {}, "tenant")
