# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod that is terminating is not evicted a second time."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason

TERMINATING = Reason("terminating", "it is terminating already")


def terminating_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod that is terminating."""
    return TERMINATING if pod.terminating else None
