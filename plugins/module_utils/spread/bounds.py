# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How far a rollout may go below and above the wanted replicas, as the workload controllers work it out."""

from __future__ import annotations

import re
import typing as t
from functools import lru_cache

from ..model.api.meta import IntOrString
from ..model.api.workload import Workload
from ..model.values.integers import parse_int64

_PERCENT = re.compile(r"[0-9]+%")


class RolloutBounds(t.NamedTuple):
    """Pods that may be missing and pods that may be too many while a rollout runs; whole pods."""

    max_unavailable: int
    max_surge: int


def resolve(value: t.Optional[IntOrString], total: int, *, round_up: bool) -> int:
    """An absolute number or a percentage of ``total`` as whole pods (``intstr.GetScaledValueFromIntOrPercent``); 0 for what is neither."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    scaled = (_percent(value) or 0) * total
    return -(-scaled // 100) if round_up else scaled // 100


def invalid_bound(workload: Workload) -> str:
    """The name of a bound of the strategy that controllers cannot read, although the API server admits it; empty where there is none.

    It looks at the form of a percentage and not at its size. With such a bound the controller ends every step with an error.
    """
    strategy = workload.spec.strategy if workload.kind == "Deployment" else workload.spec.update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    for name, value in (("maxSurge", rolling.max_surge), ("maxUnavailable", rolling.max_unavailable)) if rolling is not None else ():
        if isinstance(value, str) and _percent(value) is None:
            return name
    return ""


@lru_cache(maxsize=256)
def _percent(text: str) -> t.Optional[int]:
    """The number of a percentage; None where it is none, or no 64-bit integer."""
    return parse_int64(text[:-1]) if _PERCENT.fullmatch(text) else None


def rollout_bounds(workload: Workload) -> RolloutBounds:
    """The bounds of a RollingUpdate (deployment ``ResolveFenceposts``); Recreate takes all away.

    A StatefulSet has no surge, and what it may miss is rounded down to at least one (``statefulset`` getStatefulSetMaxUnavailable).
    """
    replicas = workload.spec.replicas
    if workload.kind == "StatefulSet":
        rolling = workload.spec.update_strategy.rolling_update if workload.spec.update_strategy else None
        wanted = rolling.max_unavailable if rolling is not None else None
        return RolloutBounds(max(1, resolve(wanted, replicas, round_up=False)), 0)
    strategy = workload.spec.strategy
    if strategy is not None and strategy.type == "Recreate":
        return RolloutBounds(replicas, 0)
    rolling = strategy.rolling_update if strategy is not None else None
    unavailable = resolve(rolling.max_unavailable if rolling else "25%", replicas, round_up=False)
    surge = resolve(rolling.max_surge if rolling else "25%", replicas, round_up=True)
    if unavailable == 0 and surge == 0:
        unavailable = 1
    return RolloutBounds(min(unavailable, replicas), surge)


def update_strategy_type(workload: Workload) -> str:
    """RollingUpdate, Recreate or OnDelete."""
    strategy = workload.spec.strategy if workload.kind == "Deployment" else workload.spec.update_strategy
    return strategy.type if strategy is not None else "RollingUpdate"


def partition(workload: Workload) -> int:
    """How many of a StatefulSet's first replicas its update leaves alone; 0 for everything else.

    It counts replicas, from ``spec.ordinals.start`` on, and not ordinals (kubernetes ``statefulset/stateful_set_control.go``).
    """
    strategy = workload.spec.update_strategy if workload.kind == "StatefulSet" else None
    rolling = strategy.rolling_update if strategy is not None else None
    return (rolling.partition if rolling is not None else None) or 0
