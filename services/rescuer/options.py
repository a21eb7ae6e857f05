# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the rescuer."""

from __future__ import annotations

from ...plugins.module_utils.rescue.options import HOLDS, HONORED
from ..common.options import CONNECTION_AND_LOG, DURATION, INTEGER, NAMES, SCHEDULER_CONFIG, SWITCH, TEXT, Kind, Option, one_of, parse_text

OPTIONS = (
    Option("namespaces", NAMES, "the namespaces whose pods are rescued (kube-system)", original_flag="--system-namespace"),
    Option("priority_threshold", INTEGER, "the lowest priority of a critical pod (2000000000)"),
    Option(
        "honor_critical_annotation",
        Kind("|".join(HONORED), one_of(*HONORED)),
        "the namespaces in which the critical-pod annotation makes a pod critical: kube-system, all of namespaces, or none (kube-system)",
    ),
    Option("grace_period", DURATION, "the maximum grace period of an evicted pod (30s)"),
    Option("allow_zero_grace", SWITCH, "allow a grace_period of 0 (false)"),
    Option("max_victims", INTEGER, "the maximum number of pods that are evicted for one pod (no maximum)"),
    Option("allow_equal_priority", SWITCH, "allow to evict pods of the same priority, and critical ones (false)"),
    Option("allow_short_grace", SWITCH, "allow to evict pods with a longer grace period (false)"),
    Option("allow_bare_pods", SWITCH, "allow to evict pods without a controller (false)"),
    Option("allow_local_storage", SWITCH, "allow to evict pods with emptyDir or hostPath volumes (false)"),
    Option("respect_windows", SWITCH, "do not evict pods outside of the maintenance window of their workload or namespace (false)"),
    Option("settle_time", DURATION, "the time in which the scheduler can bind a pod by itself, each time that this becomes possible (2s)"),
    Option("hold", Kind("|".join(HOLDS), one_of(*HOLDS)), "the way in which the capacity is reserved for the pod (auto)"),
    Option("hold_taint_key", TEXT, "the key of the taint that reserves it (CriticalAddonsOnly)"),
    Option("wait_timeout", DURATION, "the maximum time until a pod is bound (10m)", original_flag="--pod-scheduled-timeout"),
    Option("evict_timeout", DURATION, "the time for which a refused eviction is repeated (2m)"),
    Option("max_attempts", INTEGER, "the maximum number of failed rescues in a row for one owner (3)"),
    SCHEDULER_CONFIG,
    Option(
        "housekeeping_interval", DURATION, "the longest time between two reconciliations; a change causes one immediately (10s)", own=True
    ),
    Option("initial_delay", DURATION, "the time before the first reconciliation (0s)", own=True),
    Option("stop_timeout", DURATION, "the time to complete rescues after a signal to stop (20s)", own=True),
    Option(
        "listen_address",
        Kind("HOST:PORT", parse_text),
        "the address of metrics and health; empty for none, :9235 for all addresses (127.0.0.1:9235)",
        own=True,
        may_be_empty=True,
    ),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad", own=True),
    Option("dry_run", SWITCH, "log the plans and change nothing (false)", own=True),
    *CONNECTION_AND_LOG,
)
