# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of rescues are computed from measured values."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bench.rescue.crowd import SLOTS, Crowd
from tests.bench.rescue.latency import Sample
from tests.bench.rescue.report import percentile


@pytest.mark.parametrize(
    ("ending", "beyond", "late"),
    [
        pytest.param(0.4, 0.6, -0.6, id="victims that end too early do not make it better"),
        pytest.param(1.5, 1.1, 0.5, id="victims that end too late make it worse"),
        pytest.param(1.0, 0.6, 0.0, id="in time"),
    ],
)
def test_beyond_the_grace_period(ending: float, beyond: float, late: float) -> None:
    sample = Sample(grace=1, victims=1, total=0.5 + ending + 0.1, before=0.5, ending=ending, after=0.1)
    assert (sample.beyond, sample.late) == pytest.approx((beyond, late))


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(20, 0, -1)]
    assert (percentile(values, 50), percentile(values, 95), percentile(values, 100), percentile([3.0], 95)) == (10, 19, 20, 3)


def test_a_crowd_fills_every_node_and_is_always_the_same() -> None:
    nodes = [f"node-{number}" for number in range(50)]
    objects = list(Crowd(["a", "b"], nodes).objects())
    pods = [item for item in objects if item["kind"] == "Pod"]
    assert Counter(pod["spec"]["nodeName"] for pod in pods) == dict.fromkeys(nodes, len(SLOTS))
    assert list(Crowd(["a", "b"], nodes).sets()) == list(Crowd(["a", "b"], nodes).sets())
    assert list(Crowd(["a", "b"], nodes, seed=2).sets()) != list(Crowd(["a", "b"], nodes).sets())
    owned = Counter(pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods)
    assert {item["metadata"]["uid"]: item["spec"]["replicas"] for item in objects if item["kind"] == "ReplicaSet"} == owned
