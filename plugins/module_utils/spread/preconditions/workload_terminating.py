# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the workload is being deleted."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason


def workload_terminating_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why the workload gets no new pods any more. None if it still gets new pods."""
    return Reason("terminating", f"{workload} is being deleted") if workload.metadata.deletion_timestamp is not None else None
