# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The maintenance window as it is in the cluster just before a write. It may have been changed or may have ended since the decision."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ForbiddenError
from ...kube.client.resources import NAMESPACES
from ...model.api.namespace import Namespace
from ...model.api.workload import Workload
from ...model.snapshot import ClusterSnapshot
from ...spread.preconditions.outside_window import outside_window_violation
from ...state.maintenance_window import WINDOW_ANNOTATION


def is_inside_live_window(api: KubeApi, live: Workload, snapshot: ClusterSnapshot) -> bool:
    """Return whether the pods of ``live``, a workload that was just read, may be moved now.

    If the workload has no window of its own, its namespace is read again. If that is forbidden, the namespace of the snapshot counts.
    Raise KubeError if the namespace cannot be read for another reason.
    """
    namespace = None if WINDOW_ANNOTATION in (live.metadata.annotations or {}) else _live_namespace(api, live.metadata.namespace)
    return outside_window_violation(live, snapshot, now_s=api.now_s(), namespace=namespace) is None


def _live_namespace(api: KubeApi, name: str) -> t.Optional[Namespace]:
    try:
        namespace: Namespace = api.get(NAMESPACES, "", name)
    except ForbiddenError:
        return None
    return namespace
