# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the rescuer, and its checked settings."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...plugins.module_utils.rescue.options import HOLDS, HONORED, RescueOptions, rescue_options
from ..common import settings
from ..common.addresses import NO_ADDRESS, Address
from ..common.kinds import SWITCH, TEXT, names, one_of, seconds, whole
from ..common.settings import CONNECTION_AND_LOG, SCHEDULER_CONFIG, CommonSettings, Option, Program

OPTIONS = (
    Option("namespaces", names(), "the namespaces whose pods are rescued (kube-system)", original_flag="--system-namespace"),
    Option("priority_threshold", whole(), "the lowest priority of a critical pod (2000000000)"),
    Option(
        "honor_critical_annotation",
        one_of(*HONORED),
        "the namespaces in which the critical-pod annotation makes a pod critical: kube-system, all of namespaces, or none (kube-system)",
    ),
    Option("grace_period", seconds(0), "the maximum grace period of an evicted pod (30s)"),
    Option("allow_zero_grace", SWITCH, "allow a grace_period of 0 (false)"),
    Option("max_victims", whole(), "the maximum number of pods that are evicted for one pod (no maximum)"),
    Option("allow_equal_priority", SWITCH, "allow to evict pods of the same priority, and critical ones (false)"),
    Option("allow_short_grace", SWITCH, "allow to evict pods with a longer grace period (false)"),
    Option("allow_bare_pods", SWITCH, "allow to evict pods without a controller (false)"),
    Option("allow_local_storage", SWITCH, "allow to evict pods with emptyDir or hostPath volumes (false)"),
    Option("respect_windows", SWITCH, "do not evict pods outside of the maintenance window of their workload or namespace (false)"),
    Option(
        "settle_time", seconds(0), "the time in which the scheduler can bind a pod by itself, each time that this becomes possible (2s)"
    ),
    Option("hold", one_of(*HOLDS), "the way in which the capacity is reserved for the pod (auto)"),
    Option("hold_taint_key", TEXT, "the key of the taint that reserves it (CriticalAddonsOnly)"),
    Option("wait_timeout", seconds(0), "the maximum time until a pod is bound (10m)", original_flag="--pod-scheduled-timeout"),
    Option("evict_timeout", seconds(0), "the time for which a refused eviction is repeated (2m)"),
    Option("max_attempts", whole(), "the maximum number of failed rescues in a row for one owner (3)"),
    SCHEDULER_CONFIG,
    Option("housekeeping_interval", seconds(), "the longest time between two reconciliations; a change causes one immediately (10s)"),
    Option("initial_delay", seconds(0), "the time before the first reconciliation (0s)"),
    Option("stop_timeout", seconds(0), "the time to complete rescues after a signal to stop (20s)"),
    Option(
        "listen_address",
        NO_ADDRESS,
        "the address of metrics and health; empty for none, :9235 for all addresses (127.0.0.1:9235)",
        may_be_empty=True,
    ),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad"),
    Option("dry_run", SWITCH, "log the plans and change nothing (false)"),
    *CONNECTION_AND_LOG,
)
DEFAULT_LISTEN = Address("127.0.0.1", 9235)
PROGRAM = Program(
    "rescuer", "Frees capacity for critical pods for which the scheduler finds no node.", OPTIONS, example="grace_period: 30s"
)


@dataclass(frozen=True)
class Settings(CommonSettings):
    """The settings of the rescuer. Times are whole seconds. If ``listen_address`` is None, nothing is served."""

    rescue: RescueOptions
    housekeeping_interval: int = 10
    initial_delay: int = 0
    stop_timeout: int = 20
    listen_address: Address | None = DEFAULT_LISTEN
    dry_run: bool = False


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the checked settings. Raises SettingsError with each wrong setting, and SystemExit after --help."""
    return settings.read_settings(PROGRAM, arguments, environment, _settings)


def _settings(values: Mapping[str, t.Any]) -> Settings:
    """Return the settings. Raises OptionError for the first wrong value."""
    own = {name: value for name, value in values.items() if name in Settings.__dataclass_fields__}
    return Settings(rescue_options(values), **own)
