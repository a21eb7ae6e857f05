# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Objects of another namespace that name a workload as their controller belong to nobody here, whatever their tenant writes."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import is_rolling

from tests.unit.support.cluster import ClusterBuilder


def two_nodes() -> tuple[ClusterBuilder, Workload]:
    builder = ClusterBuilder()
    builder.node("a")
    builder.node("b")
    return builder, builder.deployment("web", ["a", "a"])


def test_a_replica_set_of_another_namespace_is_no_revision() -> None:
    builder, web = two_nodes()
    revision = builder.snapshot().revision(web)
    builder.replica_set("web", 999, "foreign")
    force_setattr(builder.replica_sets[-1].metadata, "namespace", "tenant")
    snapshot = builder.snapshot()
    assert snapshot.revision(web) == revision and not is_rolling(web, snapshot)


def test_a_pod_of_another_namespace_is_no_replica() -> None:
    builder, web = two_nodes()
    known = builder.snapshot().owned_pods(web)
    (replica_set,) = builder.snapshot().replica_sets(web)
    builder.pod("evil", "b", owner=("ReplicaSet", replica_set.metadata.uid))
    force_setattr(builder.pods[-1].metadata, "namespace", "tenant")
    snapshot = builder.snapshot()
    assert len(snapshot.pods) == len(known) + 1
    assert snapshot.owned_pods(web) == snapshot.current_pods(web) == snapshot.placed_pods(web) == known


def test_a_replica_set_that_is_being_deleted_is_not_the_current_revision() -> None:
    builder, web = two_nodes()
    revision = builder.snapshot().revision(web)
    builder.replica_set("web", 999, "ending")
    force_setattr(builder.replica_sets[-1].metadata, "deletion_timestamp", "2026-01-01T00:00:00Z")
    assert builder.snapshot().revision(web) == revision
