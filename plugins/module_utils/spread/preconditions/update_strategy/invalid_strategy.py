# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the controller cannot read a bound of the update strategy."""

from __future__ import annotations

import typing as t

from ....model.api.workload import Workload
from ....model.reason import Reason
from ...rollout import invalid_bound


def invalid_strategy_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the bound that the controller cannot read. None if it can read all bounds."""
    invalid = invalid_bound(workload)
    if not invalid:
        return None
    return Reason("invalid_strategy", f"{invalid} of {workload} is not a percentage that its controller can read; correct it")
