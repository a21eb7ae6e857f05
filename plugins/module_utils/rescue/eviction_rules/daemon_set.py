# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod of a DaemonSet is not evicted: its controller would start it on the same node again."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..victims.pod_traits import is_controlled_by

DAEMON_SET = Reason("daemon_set", "its DaemonSet would start it on the same node again")


def daemon_set_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod of a DaemonSet."""
    return DAEMON_SET if is_controlled_by(pod, "DaemonSet") else None
