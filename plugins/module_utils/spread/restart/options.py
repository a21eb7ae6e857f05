# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of k8s_rollout_restart: strategy, limits and waits."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...model.option_values import OptionError, check_minima
from ...model.scheduler_config_source import check_scheduler_config
from ...model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ...model.well_known import HOSTNAME
from ..options import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS, check_topology_keys, option_times
from .targets import CheckedResult, Target

ROLLOUT = "rollout"
EVICT_SURPLUS = "evict_surplus"
AUTO = "auto"
STRATEGIES = (ROLLOUT, EVICT_SURPLUS, AUTO)

KEEP = "keep"
ADD = "add"
SPREAD_CONSTRAINTS = (KEEP, ADD)

MINIMA = {
    "cooldown": 0,
    "max_attempts": 1,
    "max_evictions": 1,
    "max_evictions_per_namespace": 1,
    "max_evictions_per_node": 1,
    "max_parallel": 1,
    "max_skew": 1,
    "max_workloads": 1,
    "wait_sleep": 1,
    "wait_timeout": 1,
}
"""The minimum of each numeric option of the restart."""


@dataclass(frozen=True)
class RestartOptions:
    """The options of k8s_rollout_restart, for decisions and execution. Times are in whole seconds.

    A limit that is None does not apply. ``asks_server``: a dry run sends each restart and eviction to the API server, which needs the
    permission to write. ``profiles``: those of ``scheduler_config``, which a run reads once. ``spread_constraint``: keep or add the spread
    constraints of the pod template. ``force_managed``: add them also to workloads whose source is in Argo CD, Flux or Helm.
    """

    strategy: str = ROLLOUT
    only_if_helps: bool = True
    allow_downtime: bool = False
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    max_parallel: int = 1
    max_workloads: t.Optional[int] = None
    max_evictions: t.Optional[int] = None
    max_evictions_per_node: t.Optional[int] = None
    max_evictions_per_namespace: t.Optional[int] = None
    wait: bool = True
    wait_timeout_s: int = 600
    wait_sleep_s: int = 5
    verify_spread: bool = True
    dry_run: bool = False
    asks_server: bool = True
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None
    scheduler_config: Sequence[str] = ()
    spread_constraint: str = KEEP
    force_managed: bool = False
    profiles: Profiles = field(default_factory=lambda: DEFAULT_PROFILES)

    def targets(self, checked: CheckedResult) -> list[Target]:
        """Return the workloads to restart, or to evict pods from. Raise OptionError, see ``CheckedResult.targets``."""
        # The check has predicted restarts without additional constraints.
        predicted = self.strategy == ROLLOUT and not self.adds_constraints
        return checked.targets(restartable=predicted, only_if_helps=self.only_if_helps)

    @property
    def awaited_s(self) -> t.Optional[int]:
        """The seconds for which the run waits for one rollout or eviction. None if it does not wait."""
        return self.wait_timeout_s if self.wait else None

    @property
    def adds_constraints(self) -> bool:
        """True if a restart adds spread constraints to the pod template."""
        return self.spread_constraint == ADD


def restart_options(params: Mapping[str, t.Any], checked: t.Optional[CheckedResult] = None, *, dry_run: bool) -> RestartOptions:
    """Return RestartOptions from the module's options. Raise OptionError that names the option.

    ``checked`` is the result of the option ``check``. Its topology keys, max_skew and scheduler_config are the defaults of these options. A
    workload that is named is restarted whether that helps or not, and without a cooldown, unless the options say otherwise.
    """
    named = params.get("name") is not None
    times = option_times(params, {"cooldown": 0 if named else DEFAULT_COOLDOWN_S, "wait_timeout": 600, "wait_sleep": 5})
    check_minima({**params, **times}, MINIMA)
    own_config = check_scheduler_config(params)
    if params["spread_constraint"] == ADD and params["strategy"] == EVICT_SURPLUS:
        raise OptionError("spread_constraint: evict_surplus does not change the pod template; set strategy to rollout or auto, or keep")
    only_if_helps, keys, max_skew = params.get("only_if_helps"), params.get("topology_keys"), params.get("max_skew")
    if checked is not None:
        keys, max_skew = checked.topology_keys if keys is None else keys, checked.max_skew if max_skew is None else max_skew
    return RestartOptions(
        strategy=params["strategy"],
        only_if_helps=not named if only_if_helps is None else only_if_helps,
        allow_downtime=params["allow_downtime"],
        cooldown_s=times["cooldown"],
        max_attempts=params["max_attempts"],
        max_parallel=params["max_parallel"],
        max_workloads=params.get("max_workloads"),
        max_evictions=params.get("max_evictions"),
        max_evictions_per_node=params.get("max_evictions_per_node"),
        max_evictions_per_namespace=params.get("max_evictions_per_namespace"),
        wait=params["wait"],
        wait_timeout_s=times["wait_timeout"],
        wait_sleep_s=times["wait_sleep"],
        verify_spread=params["verify_spread"],
        dry_run=dry_run,
        topology_keys=check_topology_keys((HOSTNAME,) if keys is None else keys),
        max_skew=max_skew,
        spread_constraint=params["spread_constraint"],
        force_managed=params["force_managed"],
        scheduler_config=checked.scheduler_config if checked is not None and params.get("scheduler_config") is None else own_config,
    )
