# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random rules between pods: affinity and anti-affinity, the labels and namespaces that they select, priorities and nominations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.integration.oracle.profiles import WAITING_SCHEDULER_NAME

Json = dict[str, Any]
T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMESPACES: dict[str, Json] = {"default": {}, "oracle": {"team": "a"}, "elsewhere": {"team": "b"}}
# Without Never a nominated pod would preempt others, or lose its nomination where it cannot.
PRIORITY_CLASSES = {
    name: {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
    for name, value in {"low": -10, "middle": 0, "high": 10}.items()
}
LABEL_VALUES = {"app": ("web", "db"), "tier": ("1", "2")}
TOPOLOGY_KEYS = ("kubernetes.io/hostname", "zone", "zone", "disk")


def of(*values: T) -> st.SearchStrategy[T]:
    """One of the values."""
    return st.sampled_from(values)


def chance(draw: Draw, tenths: int) -> bool:
    """True in so many cases of ten."""
    return bool(draw(st.integers(0, 9)) >= 10 - tenths)


def metadata() -> st.SearchStrategy[Json]:
    """Namespace and labels of a pod."""
    values = {"app": of(*LABEL_VALUES["app"]), "tier": of(*LABEL_VALUES["tier"], None)}
    labels = st.fixed_dictionaries(values).map(lambda drawn: {key: value for key, value in drawn.items() if value is not None})
    return st.fixed_dictionaries({"namespace": of("default", "default", *NAMESPACES), "labels": labels})


def priority_class() -> st.SearchStrategy[Json]:
    """A part of the spec, often empty."""
    return of({}, {}, {}, *({"priorityClassName": name} for name in PRIORITY_CLASSES))


@st.composite
def pod_affinities(draw: Draw, *, affinity_tenths: int = 3, anti_affinity_tenths: int = 3) -> Json:
    """Required affinity, anti-affinity, both or none."""
    found: Json = {}
    for name, tenths in (("podAffinity", affinity_tenths), ("podAntiAffinity", anti_affinity_tenths)):
        if chance(draw, tenths):
            drawn = draw(st.lists(terms(), min_size=1, max_size=2))
            found[name] = {"requiredDuringSchedulingIgnoredDuringExecution": drawn}
    return found


def companions() -> st.SearchStrategy[Json]:
    """A spec without requests, so that no earlier filter hides the results of the filters that compare pods."""
    return st.builds(lambda: {"containers": [{"name": "main", "image": "none"}], "tolerations": [{"operator": "Exists"}]})


@st.composite
def terms(draw: Draw) -> Json:
    """One term."""
    term: Json = {"topologyKey": draw(of(*TOPOLOGY_KEYS))}
    if chance(draw, 9):
        term["labelSelector"] = draw(selectors(LABEL_VALUES))
        if chance(draw, 2):
            term[draw(of("matchLabelKeys", "mismatchLabelKeys"))] = [draw(of(*LABEL_VALUES))]
    if chance(draw, 2):
        term["namespaces"] = draw(st.lists(of(*NAMESPACES), min_size=1, max_size=2, unique=True))
    if chance(draw, 3):
        named = {"kubernetes.io/metadata.name": tuple(NAMESPACES)}
        term["namespaceSelector"] = draw(of({}, {"matchLabels": {"team": "a"}}) | selectors({"team": ("a", "b")}) | selectors(named))
    return term


@st.composite
def selectors(draw: Draw, values: dict[str, tuple[str, ...]]) -> Json:
    """A selector over these labels: by value, by expression, both or neither."""
    selector: Json = {}
    key = draw(of(*values))
    if chance(draw, 6):
        selector["matchLabels"] = {key: draw(of(*values[key]))}
    if chance(draw, 4):
        operator = draw(of("In", "NotIn", "Exists", "DoesNotExist"))
        listed = {"values": draw(st.lists(of(*values[key]), min_size=1, max_size=2))} if operator in ("In", "NotIn") else {}
        selector["matchExpressions"] = [{"key": draw(of(*values)), "operator": operator, **listed}]
    return selector


def nomination(node_name: str) -> st.SearchStrategy[tuple[Json, Json]]:
    """Spec and status of a pending pod that holds a promise of the node, mostly one of the same scheduler."""
    scheduler = of(*[WAITING_SCHEDULER_NAME] * 4, "of-somebody-else")
    spec = st.fixed_dictionaries({"priorityClassName": of(*PRIORITY_CLASSES), "schedulerName": scheduler})
    return spec.map(lambda spec: (spec, {"nominatedNodeName": node_name}))
