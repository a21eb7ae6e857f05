# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the rebalancer. Those of the check and of the restart have the names of the modules' options."""

from __future__ import annotations

import typing as t

from ...plugins.module_utils.model.api.workload import WORKLOAD_KINDS
from ...plugins.module_utils.model.values.shown import shown_value
from ...plugins.module_utils.spread.restart.options import SPREAD_CONSTRAINTS, STRATEGIES
from ..common.options import CONNECTION_AND_LOG, DURATION, INTEGER, NAMES, SCHEDULER_CONFIG, SWITCH, Kind, Option, one_of, parse_text


def parse_kinds(value: t.Any) -> list[str]:
    """Return the kinds of workloads. Raises ValueError."""
    names: list[str] = NAMES.parse(value)
    for name in names:
        if name not in WORKLOAD_KINDS:
            raise ValueError(f"{shown_value(name)} is not one of {', '.join(WORKLOAD_KINDS)}")
    return names


SELECTORS = Kind("SELECTOR,SELECTOR", NAMES.parse)

OPTIONS = (
    Option("namespaces", NAMES, "only these namespaces; they still need namespace_annotation (all)"),
    Option("exclude_namespaces", NAMES, "namespaces that are not checked (none)"),
    Option("namespace_label_selectors", SELECTORS, "only namespaces whose labels match every selector"),
    Option(
        "namespace_annotation",
        Kind("KEY=VALUE", parse_text),
        "the annotation that a namespace must have (kube-scheduling.onprem/spread=allow); empty for any, without system workloads",
        may_be_empty=True,
    ),
    Option("label_selectors", SELECTORS, "only workloads whose own labels match every selector"),
    Option("kinds", Kind(",".join(WORKLOAD_KINDS), parse_kinds), "the kinds of workloads (Deployment,StatefulSet)"),
    Option("topology_keys", NAMES, "the labels of nodes over whose values replicas are spread (kubernetes.io/hostname)"),
    Option("max_skew", INTEGER, "the allowed difference of replicas between two nodes or zones (only collapsed workloads are restarted)"),
    Option("min_ready_nodes", INTEGER, "the number of usable nodes below which nothing is checked (2)"),
    Option("cooldown", DURATION, "the time between two restarts of one workload (10m)"),
    Option("max_attempts", INTEGER, "the maximum number of restarts of one workload that made no progress (3)"),
    Option("strategy", Kind("|".join(STRATEGIES), one_of(*STRATEGIES)), "the way in which replicas are moved (rollout)"),
    Option(
        "spread_constraint",
        Kind("|".join(SPREAD_CONSTRAINTS), one_of(*SPREAD_CONSTRAINTS)),
        "keep the spread constraints of the pod templates, or add those that make the spread last (keep)",
    ),
    Option("force_managed", SWITCH, "also add them to workloads of Argo CD, Flux or Helm (false)"),
    Option("allow_downtime", SWITCH, "also restart workloads of which no pod may be available meanwhile (false)"),
    Option("max_parallel", INTEGER, "the maximum number of workloads that are restarted at the same time (1)"),
    Option("max_workloads", INTEGER, "the maximum number of workloads that one pass moves (no maximum)"),
    Option("max_evictions", INTEGER, "the maximum number of pods that one pass evicts (no maximum)"),
    Option("max_evictions_per_node", INTEGER, "the same for each node (no maximum)"),
    Option("max_evictions_per_namespace", INTEGER, "the same for each namespace (no maximum)"),
    Option("wait", SWITCH, "wait for the end of each rollout; otherwise the next pass checks the result (true)"),
    Option("wait_timeout", DURATION, "the maximum time for one rollout or one eviction (10m)"),
    Option("wait_sleep", DURATION, "the time between two reads of a workload if watching is forbidden (5s)"),
    Option("verify_spread", SWITCH, "check the spread after each rollout (true)"),
    SCHEDULER_CONFIG,
    Option("interval", DURATION, "the time between two passes; 0 for one pass, after which the program ends (0)", own=True),
    Option(
        "listen_address",
        Kind("HOST:PORT", parse_text),
        "with an interval, the address of metrics and health; empty for none, :9236 for all addresses (127.0.0.1:9236)",
        own=True,
        may_be_empty=True,
    ),
    Option("pushgateway_url", Kind("URL", parse_text), "the Pushgateway that gets the metrics of each pass (none)", own=True),
    Option("metrics_path", Kind("FILE", parse_text), "a file for node_exporter's textfile collector with these metrics (none)", own=True),
    Option("dry_run", SWITCH, "log the plan and change nothing (false)", own=True),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad (false)", own=True),
    *CONNECTION_AND_LOG,
)
