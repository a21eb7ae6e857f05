# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the rescuer."""

from __future__ import annotations

from ...plugins.module_utils.rescue.options import HOLDS, HONORED
from ..common.options import DURATION, INTEGER, LOG_FORMATS, LOG_LEVELS, NAMES, SWITCH, TEXT, Kind, Option, _one_of, _text

OPTIONS = (
    Option("namespaces", NAMES, "the namespaces whose pods are rescued (kube-system)", original_flag="--system-namespace"),
    Option("priority_threshold", INTEGER, "from this priority on a pod is critical (2000000000)"),
    Option(
        "honor_critical_annotation",
        Kind("|".join(HONORED), _one_of(*HONORED)),
        "where the old critical-pod annotation makes a pod critical; all means all of the namespaces (kube-system)",
    ),
    Option("grace_period", DURATION, "what an evicted pod gets at most (10s)"),
    Option("force", SWITCH, "allow a grace period of 0 (false)"),
    Option("max_victims", INTEGER, "the most pods that are evicted for one pod (no bound)"),
    Option("allow_equal_priority", SWITCH, "allow to evict pods of the same priority, and critical ones (false)"),
    Option("allow_short_grace", SWITCH, "allow to evict pods whose own grace period is longer (false)"),
    Option("allow_bare_pods", SWITCH, "allow to evict pods without a controller (false)"),
    Option("allow_local_storage", SWITCH, "allow to evict pods with emptyDir or hostPath volumes (false)"),
    Option("respect_windows", SWITCH, "do not evict pods outside of the maintenance window of their workload or namespace (false)"),
    Option("settle_time", DURATION, "what the scheduler gets to place a pod by itself, each time that this has become possible (2s)"),
    Option("hold", Kind("|".join(HOLDS), _one_of(*HOLDS)), "how the room is kept for the pod (auto)"),
    Option("hold_taint_key", TEXT, "the key of the taint that keeps it (CriticalAddonsOnly)"),
    Option("scheduled_timeout", DURATION, "how long a pod is waited for (10m)", original_flag="--pod-scheduled-timeout"),
    Option("evict_timeout", DURATION, "how long a refused eviction is asked for again (2m)"),
    Option("max_attempts", INTEGER, "rescues in vain in a row, after which no more are made for an owner (3)"),
    Option("housekeeping_interval", DURATION, "the longest time between two looks; changes are seen at once (10s)", own=True),
    Option("initial_delay", DURATION, "how long to wait before the first look (0s)", own=True),
    Option("stop_timeout", DURATION, "how long to go on with what is under way when told to stop (20s)", own=True),
    Option(
        "listen_address",
        Kind("HOST:PORT", _text),
        "where metrics and health are served; empty for nowhere, :9235 for all addresses (127.0.0.1:9235)",
        own=True,
        may_be_empty=True,
    ),
    Option("dry_run", SWITCH, "log the plans and change nothing (false)", own=True),
    Option("kubeconfig", Kind("FILE", _text), "the connection (the pod's service account, else as kubectl)", own=True),
    Option("context", TEXT, "the kubeconfig's context", own=True),
    Option("log_format", Kind("|".join(LOG_FORMATS), _one_of(*LOG_FORMATS)), "one JSON object a line, or readable text (json)", own=True),
    Option("log_level", Kind("|".join(LOG_LEVELS), _one_of(*LOG_LEVELS)), "the least important lines to be written (info)", own=True),
)
