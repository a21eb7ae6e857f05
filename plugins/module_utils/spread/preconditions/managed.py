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

HELM_ANNOTATION = "meta.helm.sh/release-name"
HELM_LABEL = ("app.kubernetes.io/managed-by", "Helm")

_MARKERS = (
    # docs/user-guide/resource_tracking.md of Argo CD: the default method, and the documented label for installations that track by label.
    ("Argo CD", "annotations", "argocd.argoproj.io/tracking-id"),
    ("Argo CD", "labels", "argocd.argoproj.io/instance"),
    ("Argo CD", "annotations", "argocd.argoproj.io/instance"),
    # docs/spec/v1/kustomizations.md of Flux's kustomize-controller; internal/postrender/origin_labels.go of its helm-controller.
    ("Flux", "labels", "kustomize.toolkit.fluxcd.io/name"),
    ("Flux", "labels", "helm.toolkit.fluxcd.io/name"),
)


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
    """Return the program that has the source of the workload, and the annotation or label by which it is found. None if there is none."""
    labels, annotations = workload.metadata.labels or {}, workload.metadata.annotations or {}
    for manager, field, key in _MARKERS:
        value = (labels if field == "labels" else annotations).get(key)
        if value is not None:
            return manager, f"{field[:-1]} {key}: {value}"
    # pkg/action/validate.go of Helm: a release owns an object with both.
    release = annotations.get(HELM_ANNOTATION)
    if release is not None and labels.get(HELM_LABEL[0]) == HELM_LABEL[1]:
        return "Helm", f"annotation {HELM_ANNOTATION}: {release}"
    return None
