# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Well-known labels of nodes (k8s.io/api ``core/v1/well_known_labels.go``)."""

from __future__ import annotations

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
