# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The index of selectors gives the same answers as a comparison of every selector, with fewer comparisons."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import LabelSelector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors import selector_index
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.label_selector import matches
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.selector_index import SelectorIndex

from tests.unit.support.calls import CountedCalls
from tests.unit.support.cluster import struct

KEYS, VALUES = "abc", "xyz"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Unknown")


def selector(labels: dict[str, str] | None = None, *expressions: dict[str, t.Any]) -> LabelSelector:
    found: LabelSelector = struct(LabelSelector, {"matchLabels": labels or {}, "matchExpressions": list(expressions)})
    return found


def random_labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randint(0, 3))}


def random_selector(chance: random.Random) -> LabelSelector | None:
    if chance.random() < 0.05:
        return None
    expressions = []
    for _number in range(chance.choice((0, 0, 1, 2))):
        expression = {"key": chance.choice(KEYS), "operator": chance.choice(OPERATORS)}
        if expression["operator"] in ("In", "NotIn"):
            expression["values"] = chance.choices(VALUES, k=chance.randint(0, 3))
        expressions.append(expression)
    return selector(random_labels(chance) if chance.random() < 0.6 else {}, *expressions)


@pytest.mark.parametrize("seed", range(200))
def test_the_index_selects_what_a_comparison_of_every_selector_selects(seed: int) -> None:
    chance = random.Random(seed)
    selectors = [random_selector(chance) for _number in range(chance.randint(0, 12))]
    index = SelectorIndex((one, number) for number, one in enumerate(selectors))
    for _number in range(20):
        label_sets = [random_labels(chance) if chance.random() < 0.9 else None for _set in range(chance.randint(1, 3))]
        expected = [number for number, one in enumerate(selectors) if any(matches(one, labels) for labels in label_sets)]
        assert index.selecting(*label_sets) == expected


COMMON = {"managed-by": "helm"}


@pytest.mark.parametrize(
    "selector_of",
    [
        pytest.param(lambda name: selector({"app": name}), id="one label"),
        pytest.param(lambda name: selector({**COMMON, "app": name}), id="first a label of all objects"),
        pytest.param(lambda name: selector({}, {"key": "app", "operator": "In", "values": [name, f"{name}-canary"]}), id="in"),
        pytest.param(lambda _name: selector({**COMMON, "app": "nobody"}), id="equal selectors that select nothing"),
        pytest.param(lambda _name: selector(), id="equal selectors that select everything"),
        pytest.param(lambda name: selector({}, {"key": f"only-{name}", "operator": "Exists"}), id="exists"),
        pytest.param(lambda name: selector({}, {"key": "tier", "operator": "NotIn", "values": [name]}), id="not in"),
    ],
)
def test_the_comparisons_grow_with_the_objects_and_not_with_objects_times_selectors(
    selector_of: t.Callable[[str], LabelSelector], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = CountedCalls(matches)
    monkeypatch.setattr(selector_index, "matches", compared)
    index = SelectorIndex((selector_of(f"app-{number}"), number) for number in range(200))
    for number in range(200):
        index.selecting({**COMMON, "tier": "backend", "app": f"app-{number}"})
    assert compared.count <= 2 * 200
