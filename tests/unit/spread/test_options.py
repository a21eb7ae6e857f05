# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Options that the cluster contradicts."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import WORKLOAD_KINDS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import (
    NAMESPACE_ANNOTATIONS,
    CheckOptions,
    check_labels_exist,
    check_options,
)

from tests.unit.support.cluster import ClusterBuilder, workers

ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("topology.kubernetes.io/zonee", f"topology_keys: no node has the label topology.kubernetes.io/zonee; similar .* {ZONE}"),
        ("failure-domain.beta.kubernetes.io/zone", f"similar ones that nodes have: .*{ZONE}"),
        ("q", "no node has the label q; label the nodes first"),
    ],
)
def test_a_topology_key_that_no_node_has_is_refused(key: str, said: str) -> None:
    cluster = workers(1)
    cluster.node("other", labels={ZONE: "a"})
    with pytest.raises(OptionError, match=said):
        check_labels_exist([ZONE, key], cluster.nodes)


def test_one_node_with_the_label_is_enough_and_without_nodes_all_pass() -> None:
    cluster = workers(3)
    cluster.node("other", labels={ZONE: "a"})
    check_labels_exist([ZONE], cluster.nodes)
    check_labels_exist([ZONE], ClusterBuilder().nodes)


@pytest.mark.parametrize("name", ["namespaces", "kinds", "topology_keys"])
def test_an_empty_list_does_not_mean_all(name: str) -> None:
    """It often comes from a template that has found nothing."""
    with pytest.raises(OptionError, match=f"{name}: is empty; name at least one"):
        check_options({**PARAMS, name: []})
    assert check_options(PARAMS).kinds == check_options({**PARAMS, "kinds": None}).kinds == WORKLOAD_KINDS


@pytest.mark.parametrize("name", ["label_selectors", "namespace_label_selectors"])
def test_an_empty_list_of_label_selectors_does_not_select_all(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}: is empty; "):
        check_options({**PARAMS, name: []})
    assert getattr(check_options({**PARAMS, name: [""]}), name) == ()


def test_no_annotation_means_the_default_ones_and_only_an_empty_text_means_all_namespaces() -> None:
    without = {name: value for name, value in PARAMS.items() if name != "namespace_annotation"}
    for given in (without, PARAMS | {"namespace_annotation": None}):
        assert check_options(given).namespace_annotations == NAMESPACE_ANNOTATIONS == CheckOptions().namespace_annotations
    assert check_options(PARAMS | {"namespace_annotation": ""}).namespace_annotations == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namespace_annotation", "https://me:secret@example.org"),
        ("topology_keys", ["https://me:secret@example.org"]),
        ("namespaces", ["https://me:secret@example.org"]),
    ],
)
def test_an_error_does_not_show_a_url_because_it_may_have_a_password(name: str, value: t.Any) -> None:
    with pytest.raises(OptionError, match=name) as error:
        check_options({**PARAMS, name: value})
    assert "secret" not in str(error.value)


def test_a_time_above_a_year_is_refused() -> None:
    with pytest.raises(OptionError, match="cooldown is 31536001: the maximum is a year, 31536000 seconds"):
        check_options({**PARAMS, "cooldown": "31536001"})


@pytest.mark.parametrize(("name", "least"), [("cooldown", 0), ("max_attempts", 1), ("max_skew", 1), ("min_ready_nodes", 1)])
def test_a_number_below_the_minimum_is_refused(name: str, least: int) -> None:
    assert check_options({**PARAMS, name: least})
    with pytest.raises(OptionError, match=f"{name} is {least - 1}"):
        check_options({**PARAMS, name: least - 1})


PARAMS: dict[str, t.Any] = {
    "namespace_annotation": "",
    "topology_keys": ["kubernetes.io/hostname"],
    "min_ready_nodes": 2,
    "predict": True,
    "max_attempts": 3,
}
