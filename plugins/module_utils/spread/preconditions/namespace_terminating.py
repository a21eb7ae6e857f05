# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the namespace of the workload is being deleted."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot


def namespace_terminating_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the workload's namespace gets no new pods any more. None if it still gets new pods."""
    namespace = snapshot.namespaces.get(workload.metadata.namespace)
    if namespace is None or namespace.status.phase != "Terminating":
        return None
    return Reason("namespace_terminating", f"namespace {workload.metadata.namespace} is being deleted")
