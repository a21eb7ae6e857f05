# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that the controller of a workload makes of its template."""

from __future__ import annotations

import typing as t

from .api.meta import Labels, ObjectMeta
from .api.pod import Pod, PodStatus, PodTemplate
from .api.volume import ClaimVolumeSource, Volume
from .api.workload import Workload
from .codec import replace
from .selectors.match_label_keys import with_merged_label_keys
from .well_known import CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME


def next_revision(workload: Workload) -> str:
    """Return a placeholder for the revision that a restart of the workload would make. The hashes of real revisions have another form.

    No other workload of its namespace has the same one: selectors by the label of the revision must not count its pods.
    """
    return f"next-{workload.metadata.name}"


def pod_of_template(namespace: str, template: PodTemplate, *, name: str = "") -> Pod:
    """Return the pod that a workload's template would make in ``namespace``, with the fields that scheduling uses.

    Its affinity terms are merged with their label keys, as the API server does when it creates a pod. The label keys of spread constraints
    are not merged, because the scheduler merges them.
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


def pod_of_workload(workload: Workload, *, ordinal: t.Optional[int] = None, revision: t.Optional[str] = None) -> Pod:
    """Return the pod that the workload would make: the pod of its template with the additions of the controllers.

    The additions are the labels of ``revision`` (by default the one that a restart would make). For a StatefulSet they are also the labels
    and the claims of the replica ``ordinal`` (by default the first).
    """
    number = workload.first_ordinal if ordinal is None else ordinal
    template = workload.spec.template
    labels = {**(template.metadata.labels or {}), **_controller_labels(workload, number, revision or next_revision(workload))}
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
    # As in the StatefulSet controller, a claim replaces the template's volume of the same name.
    names = {volume.name for volume in own}
    kept = [volume for volume in pod.spec.volumes or () if volume.name not in names]
    return replace(pod, spec=replace(pod.spec, volumes=(*kept, *own)))


def _controller_labels(workload: Workload, ordinal: int, revision: str) -> Labels:
    """Return the labels that the controllers add.

    Source: kubernetes ``pkg/controller``: ``deployment/sync.go`` and ``statefulset/stateful_set_utils.go``.
    """
    if workload.kind != "StatefulSet":
        return {POD_TEMPLATE_HASH: revision}
    return {
        CONTROLLER_REVISION_HASH: revision,
        STATEFUL_SET_POD_NAME: f"{workload.metadata.name}-{ordinal}",
        POD_INDEX: str(ordinal),
    }
