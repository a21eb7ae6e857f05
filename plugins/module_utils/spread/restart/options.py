# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of k8s_rollout_restart: targets, strategy, limits and waits."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...model.well_known import HOSTNAME
from ..options import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS, check_minima, check_topology_keys

ROLLOUT = "rollout"
EVICT_SURPLUS = "evict_surplus"
AUTO = "auto"
STRATEGIES = (ROLLOUT, EVICT_SURPLUS, AUTO)


@dataclass(frozen=True)
class RestartOptions:
    """The options of k8s_rollout_restart, for decisions and execution. Times are in whole seconds."""

    strategy: str = ROLLOUT
    only_if_helps: bool = True
    allow_downtime: bool = False
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    max_parallel: int = 1
    wait: bool = True
    wait_timeout_s: int = 600
    wait_sleep_s: int = 5
    verify_spread: bool = True
    dry_run: bool = False
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None


class Target(t.NamedTuple):
    """A workload for which a restart is requested."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def restart_targets(params: Mapping[str, t.Any]) -> list[Target]:
    """Return the workload of the option ``name``, or the workloads of the option ``workloads``."""
    if params.get("name") is not None:
        return [Target(params["kind"], params["namespace"], params["name"])]
    return [Target(entry["kind"], entry["namespace"], entry["name"]) for entry in params["workloads"]]


def restart_options(params: Mapping[str, t.Any], *, dry_run: bool) -> RestartOptions:
    """Return RestartOptions from the module's options. Raise OptionError that names the option."""
    check_minima(params)
    only_if_helps = params.get("only_if_helps")
    return RestartOptions(
        strategy=params["strategy"],
        only_if_helps=params.get("name") is None if only_if_helps is None else only_if_helps,
        allow_downtime=params["allow_downtime"],
        cooldown_s=params["cooldown"],
        max_attempts=params["max_attempts"],
        max_parallel=params["max_parallel"],
        wait=params["wait"],
        wait_timeout_s=params["wait_timeout"],
        wait_sleep_s=params["wait_sleep"],
        verify_spread=params["verify_spread"],
        dry_run=dry_run,
        topology_keys=check_topology_keys(params["topology_keys"]),
        max_skew=params.get("max_skew"),
    )
