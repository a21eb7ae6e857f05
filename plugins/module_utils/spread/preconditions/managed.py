# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the pod template would be changed, and a program outside of the cluster's API has its source.

The label ``app.kubernetes.io/instance`` is no marker: Argo CD can track by it, but many charts set it for other programs. A workload that a
controller in the cluster owns is not refused, as in a restart without a change of the template.
"""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.codec import encode_json
from ...model.reason import Reason

_MARKERS = (
    # docs/user-guide/resource_tracking.md of Argo CD: the default method, and the documented label for installations that track by label.
    ("Argo CD", "annotations", "argocd.argoproj.io/tracking-id"),
    ("Argo CD", "labels", "argocd.argoproj.io/instance"),
    ("Argo CD", "annotations", "argocd.argoproj.io/instance"),
    # docs/spec/v1/kustomizations.md of Flux's kustomize-controller; internal/postrender/origin_labels.go of its helm-controller.
    ("Flux", "labels", "kustomize.toolkit.fluxcd.io/name"),
    ("Flux", "labels", "helm.toolkit.fluxcd.io/name"),
    # pkg/cluster/kubernetes/sync.go of Flux 1; pkg/release/annotator.go of its helm-operator.
    ("Flux", "annotations", "fluxcd.io/sync-checksum"),
    ("Flux", "labels", "fluxcd.io/sync-gc-mark"),
    ("Flux", "annotations", "helm.fluxcd.io/antecedent"),
)

_FIELD_MANAGERS = (
    # common/common.go of Argo CD (ArgoCDSSAManager), and the name of the program for syncs that are not server-side.
    ("Argo CD", "argocd-controller"),
    ("Argo CD", "argocd-application-controller"),
    # The controllers of Flux name the manager after themselves (main.go of each).
    ("Flux", "kustomize-controller"),
    ("Flux", "helm-controller"),
)
"""The names in ``managedFields``. They also show workloads without a marker, for example if Argo CD tracks by a label of your own."""

HELM_ANNOTATION = "meta.helm.sh/release-name"
"""The annotation of a release (``pkg/action/validate.go`` of Helm). The label that Helm sets with it is not required: others change it."""


def managed_violation(workload: Workload, patch: dict[str, t.Any]) -> t.Optional[Reason]:
    """Return the reason why the ``patch`` of the pod template must not be written, with the patch. None if no program has its source."""
    found = _manager(workload)
    if found is None:
        return None
    manager, marker = found
    text = f"{workload} is managed by {manager} ({marker}), whose next sync may remove the change"
    remedy = f"write this patch into its source, or set force_managed: {encode_json(patch).decode()}"
    return Reason("managed", f"{text}; {remedy}")


def _manager(workload: Workload) -> t.Optional[tuple[str, str]]:
    """Return the program that has the source of the workload, and the mark by which it is found. None if there is none."""
    labels, annotations = workload.metadata.labels or {}, workload.metadata.annotations or {}
    for program, field, key in _MARKERS:
        value = (labels if field == "labels" else annotations).get(key)
        if value is not None:
            return program, f"{field[:-1]} {key}: {value}"
    # A program that only writes a subresource, such as the status, does not have the source.
    writers = [entry.manager for entry in workload.metadata.managed_fields or () if not entry.subresource]
    for program, name in _FIELD_MANAGERS:
        if name in writers:
            return program, f"field manager {name}"
    release = annotations.get(HELM_ANNOTATION)  # last, because helm-controller of Flux sets it, too
    return ("Helm", f"annotation {HELM_ANNOTATION}: {release}") if release is not None else None
