# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod that a restart of a workload makes."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import next_revision, pod_of_workload

from tests.unit.support.cluster import workers


def test_a_deployments_pods_have_the_hash_of_a_new_revision() -> None:
    workload = workers(1).deployment("web", [], template={"metadata": {"labels": {"app": "web", "pod-template-hash": "own"}}})
    assert pod_of_workload(workload).metadata.labels == {"app": "web", "pod-template-hash": next_revision(workload)}
    assert workload.spec.template.metadata.labels == {"app": "web", "pod-template-hash": "own"}


def test_a_stateful_sets_pods_have_its_labels_and_claims_by_their_ordinal() -> None:
    claims = [{"metadata": {"name": "data"}}]
    workload = workers(1).stateful_set("db", [], ordinals={"start": 3}, volumeClaimTemplates=claims)
    for pod, ordinal in ((pod_of_workload(workload), 3), (pod_of_workload(workload, ordinal=5), 5)):
        assert pod.metadata.labels == {
            "app": "db",
            "controller-revision-hash": next_revision(workload),
            "statefulset.kubernetes.io/pod-name": f"db-{ordinal}",
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        claimed = [volume.persistent_volume_claim for volume in pod.spec.volumes or ()]
        assert [claim.claim_name for claim in claimed if claim is not None] == [f"data-db-{ordinal}"]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_label_keys_of_required_and_preferred_terms_are_merged(kind: str) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"]}
    preferred = [{"weight": 5, "podAffinityTerm": {**term, "matchLabelKeys": None, "mismatchLabelKeys": ["app"]}}]
    for part, operators in (({"preferred": preferred}, ["NotIn"]), ({"required": [term], "preferred": preferred}, ["In", "NotIn"])):
        affinity = {kind: {f"{name}DuringSchedulingIgnoredDuringExecution": terms for name, terms in part.items()}}
        pod = pod_of_workload(workers(1).deployment("web", [], template={"spec": {"affinity": affinity}}), revision="5d9c")
        assert pod.spec.affinity is not None
        merged = pod.spec.affinity.pod_affinity or pod.spec.affinity.pod_anti_affinity
        assert merged is not None
        terms = [*(merged.required_during_scheduling_ignored_during_execution or ())]
        terms += [one.pod_affinity_term for one in merged.preferred_during_scheduling_ignored_during_execution or ()]
        selectors = [one.label_selector for one in terms]
        assert [one.operator for selector in selectors if selector for one in selector.match_expressions or ()] == operators
        assert selectors[-1] is not None
        assert [one.values for one in selectors[-1].match_expressions or ()] == [("web",)]
