# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that a workload's template makes."""

from __future__ import annotations

import typing as t

from .api.meta import Labels, ObjectMeta
from .api.pod import Pod, PodStatus, PodTemplate
from .api.volume import ClaimVolumeSource, Volume
from .api.workload import Workload
from .codec import replace
from .selectors.match_label_keys import with_merged_label_keys
from .well_known import CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME

NEXT_REVISION = "next"
"""Stands for the revision that a restart would make; the hashes of real revisions look different."""


def pod_of_template(namespace: str, template: PodTemplate, *, name: str = "") -> Pod:
    """The pod that a workload's template would make in ``namespace``, as far as placement is concerned.

    Its affinity terms are merged with their label keys, as the API server merges them when it creates a pod. Those of spread
    constraints the scheduler merges itself.
    """
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
    )
    return Pod(
        metadata=metadata, spec=with_merged_label_keys(template.spec, template.metadata.labels or {}), status=PodStatus(phase="Pending")
    )


def pod_of_workload(workload: Workload, *, ordinal: t.Optional[int] = None, revision: str = NEXT_REVISION) -> Pod:
    """The pod that the workload would make: its template's, with what the controllers add.

    That is the labels of ``revision`` (that of a restart, unless given), and for a StatefulSet the labels and the claims of the
    replica ``ordinal`` (its first, unless given).
    """
    number = workload.first_ordinal if ordinal is None else ordinal
    template = workload.spec.template
    labels = {**(template.metadata.labels or {}), **_controller_labels(workload, number, revision)}
    pod = pod_of_template(workload.metadata.namespace, replace(template, metadata=replace(template.metadata, labels=labels)))
    claims = workload.spec.volume_claim_templates or ()
    if not claims:
        return pod
    number = workload.first_ordinal if ordinal is None else ordinal
    own = [
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=ClaimVolumeSource(
                claim_name=f"{claim.metadata.name}-{workload.metadata.name}-{number}",
                claim_template=claim,
            ),
        )
        for claim in claims
    ]
    # Like its controller does: a claim takes the place of the template's volume of the same name.
    names = {volume.name for volume in own}
    kept = [volume for volume in pod.spec.volumes or () if volume.name not in names]
    return replace(pod, spec=replace(pod.spec, volumes=(*kept, *own)))


def _controller_labels(workload: Workload, ordinal: int, revision: str) -> Labels:
    """Kubernetes ``pkg/controller``: ``deployment/sync.go`` and ``statefulset/stateful_set_utils.go``."""
    if workload.kind != "StatefulSet":
        return {POD_TEMPLATE_HASH: revision}
    return {
        CONTROLLER_REVISION_HASH: revision,
        STATEFUL_SET_POD_NAME: f"{workload.metadata.name}-{ordinal}",
        POD_INDEX: str(ordinal),
    }
