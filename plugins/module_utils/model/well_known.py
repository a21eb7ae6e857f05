# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Well-known labels of nodes and pods, an annotation, and resources (k8s.io/api ``core/v1/well_known_labels.go``, ``apps/v1/types.go``)."""

from __future__ import annotations

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

POD_TEMPLATE_HASH = "pod-template-hash"
CONTROLLER_REVISION_HASH = "controller-revision-hash"
STATEFUL_SET_POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, with the UID that the kubelet has given to the static pod. The API server permits no change of it."""

BASIC_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""The resources that every node has, in the order of the scheduler's messages."""
