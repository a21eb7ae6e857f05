# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the update strategy OnDelete replaces no pods by itself."""

from __future__ import annotations

import typing as t

from ....model.api.workload import Workload
from ....model.reason import Reason
from ...rollout import update_strategy_type


def on_delete_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why a restart replaces no pod. None for any other strategy."""
    if update_strategy_type(workload) != "OnDelete":
        return None
    return Reason("on_delete", f"{workload} replaces its pods only when they are deleted; use strategy evict_surplus")
