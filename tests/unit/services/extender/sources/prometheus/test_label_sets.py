# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SeriesLabels are a mapping, and equal parts of label sets and nodes are kept once."""

from __future__ import annotations

import json
import sys

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes import node_objects
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.label_sets import (
    UNUSED_REFRESHES,
    LabelSet,
    LabelSets,
)
from hypothesis import given
from hypothesis import strategies as st


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4))
def test_labels_are_the_same_as_a_dictionary(labels: dict[str, str]) -> None:
    found = LabelSets("instance").made(json.dumps(labels).encode()).labels
    assert found == labels and dict(found) == labels and len(found) == len(labels) and repr(found) == repr(labels)
    for name in (*labels, "absent"):
        assert found.get(name, "none") == labels.get(name, "none") and (name in found) == (name in labels)
    with pytest.raises(KeyError, match="absent"):
        found["absent"]


def test_the_names_of_labels_are_kept_once_also_after_other_label_sets_were_removed() -> None:
    sets = LabelSets("instance")

    def of(instance: str) -> LabelSet:
        found = sets.made(json.dumps({"instance": instance, "device": "eth0"}).encode())
        sets.keep(found)
        return found

    first, _removed = of("a"), of("b")
    for _refresh in range(UNUSED_REFRESHES + 1):
        sets.note_use([first])
        sets.end_refresh()
    assert list(sets.known) == [first.metric]
    assert of("c").labels.names is first.labels.names and sys.getsizeof(first.labels) < sys.getsizeof({"a": ""})


def test_the_texts_of_series_and_nodes_are_kept_once_and_not_interned() -> None:
    sets = LabelSets("instance")
    devices = [sets.made(json.dumps({"instance": str(n), "device": "veth of today"}).encode()).labels["device"] for n in range(2)]
    nodes = [node_objects._record_of(node_objects._Node(metadata=ObjectMeta(labels={"zone": " ".join(["far", "away"])}))) for _ in range(2)]
    for first, second in (devices, [node.labels["zone"] for node in nodes]):
        assert first is second
        assert sys.intern(" ".join(first.split())) is not first, "Python 3.12 would never free it"


def test_nodes_of_one_type_share_their_allocatable_resources() -> None:
    def allocatable(name: str, cpu: str) -> object:
        meta = ObjectMeta(name=name)
        return node_objects._record_of(node_objects._Node(metadata=meta, status=node_objects._Status(allocatable={"cpu": cpu}))).allocatable

    assert allocatable("a", "4") is allocatable("b", "4") == {"cpu": 4000}
    assert allocatable("c", "8") == {"cpu": 8000}
