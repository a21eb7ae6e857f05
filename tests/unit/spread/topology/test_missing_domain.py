# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The message names each cause for which replicas are in no domain."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions

from tests.unit.support.cluster import workers


def reason(homes: list[str], *undecodable: str) -> str:
    cluster = workers(2)
    cluster.node("bare")
    cluster.nodes[-1] = replace(cluster.nodes[-1], metadata=replace(cluster.nodes[-1].metadata, labels=None))
    cluster.deployment("web", homes)
    odd = [Undecodable(kind="Node", metadata=ObjectMeta(name=name), message="spec") for name in undecodable]
    (line,) = check_spread(cluster.snapshot(undecodable=odd), CheckOptions()).workloads
    assert line.verdict.verdict == "unknown"
    return str(line.verdict.reason)


def test_replicas_on_a_node_that_cannot_be_decoded_are_not_said_to_lack_a_label() -> None:
    assert reason(["worker-3"] * 3, "worker-3") == "no_domain: 3 replicas are on node worker-3, which cannot be decoded"


def test_each_cause_is_reported_with_its_own_replicas() -> None:
    label, undecoded, missing = reason(["worker-1", "bare", "worker-3", "worker-4", "gone"], "worker-3", "worker-4").split("; ")
    assert label.startswith("no_domain: 1 replica ") and label.endswith(" without the label kubernetes.io/hostname")
    assert undecoded.startswith("2 replicas ") and " worker-3, worker-4, which cannot be decoded" in undecoded
    assert missing.startswith("1 replica is on node gone, ")
