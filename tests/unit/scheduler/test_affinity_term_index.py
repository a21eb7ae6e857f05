# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod is compared only with terms that can select it. A tenant's terms for its own namespace cost no time in other namespaces."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import LabelSelector, ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.label_selector import matches
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler import affinity_term_index
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.affinity_term_index import AffinityTermIndex

from tests.unit.support.calls import CountedCalls
from tests.unit.support.objects import pod

KEY = "app"


def repelled(
    selector: t.Any, labels: dict[str, str], namespace: str, known: dict[str, dict[str, str]] | None = None, **term: t.Any
) -> bool:
    """Return whether a term of a pod in namespace ``tenant`` selects a pod with the labels.

    ``known``: the labels of the namespaces that could be read.
    """
    terms = [{"topologyKey": "zone", "labelSelector": selector, **term}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    owner = pod(on="node-1", namespace="tenant", affinity=affinity)
    other = pod(namespace=namespace, labels=labels)
    return bool(AffinityTermIndex.of([owner]).anti_affinity_terms_matching(other, namespaces(known or {})))


def namespaces(labels: dict[str, dict[str, str]]) -> dict[str, Namespace]:
    return {name: Namespace(metadata=ObjectMeta(name=name, labels=found)) for name, found in labels.items()}


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


@pytest.mark.parametrize(
    ("reach", "found"),
    [
        ({"namespaces": ["third"]}, False),
        ({"namespaces": ["third", "default"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "shop"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "bank"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["bank"]}]}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["shop"]}]}}, False),
    ],
)
@pytest.mark.parametrize("selector", SELECTORS)
def test_a_term_is_left_out_where_its_namespaces_do_not_take_in_the_pods(selector: t.Any, reach: t.Any, found: bool) -> None:
    assert repelled(selector, {KEY: "web"}, "default", {"default": {"team": "shop"}}, **reach) is found


def test_a_term_that_names_and_selects_a_namespace_is_found_once() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaces": ["default", "default"], "namespaceSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    groups = AffinityTermIndex.of([pod(on="node-1", namespace="tenant", affinity=affinity)])
    assert len(groups.anti_affinity_terms_matching(pod(namespace="default"), namespaces({"default": {}}))) == 1


def test_other_labels_of_the_namespace_in_a_later_snapshot_count() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "shop"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    groups = AffinityTermIndex.of([pod(on="node-1", namespace="tenant", affinity=affinity)])
    for team, found in (("shop", 1), ("bank", 0), ("shop", 1)):
        assert len(groups.anti_affinity_terms_matching(pod(namespace="default"), namespaces({"default": {"team": team}}))) == found


@pytest.mark.parametrize("of", ["terms of others", "own terms"])
def test_terms_with_namespace_selectors_are_compared_in_proportion_to_their_number(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of so many pods is compared with as many terms for other namespaces, or with as many other pods."""
    counts = []
    for size in (20, 40):
        selector = {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}
        terms = [
            {"topologyKey": "zone", "labelSelector": selector, "namespaceSelector": {"matchLabels": {"n": str(i)}}} for i in range(size)
        ]
        affinity = [{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}} for term in terms]
        owners = [pod(on="node-1", namespace=f"tenant-{i}", labels={"own": str(i)}, affinity=affinity[i]) for i in range(size)]
        groups = AffinityTermIndex.of(owners)
        compared = CountedCalls(matches)
        with monkeypatch.context() as patch:
            patch.setattr(affinity_term_index, "matches", compared)
            for number in range(size):
                if of == "own terms":
                    groups.pods_matching(None, LabelSelector(match_labels={"own": str(number)}))
                else:
                    groups.anti_affinity_terms_matching(
                        pod(namespace="default", labels={KEY: str(number)}), namespaces({"default": {"n": "3"}})
                    )
        counts.append(compared.count)
    assert 0 < counts[1] <= 2.2 * counts[0]
