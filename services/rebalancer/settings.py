# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the rebalancer, and its checked settings.

The options of the check and of the restart have the names of the modules' options.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.model.api.workload import WORKLOAD_KINDS
from ...plugins.module_utils.model.well_known import HOSTNAME
from ...plugins.module_utils.operations.rebalance.options import PassOptions
from ...plugins.module_utils.spread.options import DEFAULT_MAX_ATTEMPTS, check_options
from ...plugins.module_utils.spread.restart.options import KEEP, ROLLOUT, SPREAD_CONSTRAINTS, STRATEGIES, restart_options
from ..common import settings
from ..common.addresses import NO_ADDRESS, Address
from ..common.kinds import SWITCH, base_url, names, one_of, seconds, text, whole
from ..common.settings import CONNECTION_AND_LOG, SCHEDULER_CONFIG, CommonSettings, Option, Program

DEFAULT_LISTEN = Address("127.0.0.1", 9236)
DEFAULT_KUBECONFIG = "~/.kube/config"
DEFAULTS: Mapping[str, t.Any] = {
    "topology_keys": [HOSTNAME],
    "min_ready_nodes": 2,
    "predict": True,
    "max_attempts": DEFAULT_MAX_ATTEMPTS,
    "strategy": ROLLOUT,
    "spread_constraint": KEEP,
    "force_managed": False,
    "allow_downtime": False,
    "max_parallel": 1,
    "wait": True,
    "verify_spread": True,
}
"""The defaults of the modules' options that the functions of the options require. The other defaults are in those functions."""


NO_PUSHGATEWAY = "it is not the address of a Pushgateway; write it as http://HOST:PORT, without a user or a query"
PUSHGATEWAY = base_url(NO_PUSHGATEWAY, NO_PUSHGATEWAY)

OPTIONS = (
    Option("namespaces", names(), "only these namespaces; they still need namespace_annotation (all)"),
    Option("exclude_namespaces", names(), "namespaces that are not checked (none)"),
    Option("namespace_label_selectors", names("SELECTOR,SELECTOR"), "only namespaces whose labels match every selector"),
    Option(
        "namespace_annotation",
        text("KEY=VALUE"),
        "the annotation that a namespace must have (kube-scheduling.onprem/spread=allow); empty for any, without system workloads",
        may_be_empty=True,
    ),
    Option("label_selectors", names("SELECTOR,SELECTOR"), "only workloads whose own labels match every selector"),
    Option("kinds", names(",".join(WORKLOAD_KINDS), *WORKLOAD_KINDS), "the kinds of workloads (Deployment,StatefulSet)"),
    Option("topology_keys", names(), "the labels of nodes over whose values replicas are spread (kubernetes.io/hostname)"),
    Option("max_skew", whole(), "the allowed difference of replicas between two nodes or zones (only collapsed workloads are restarted)"),
    Option("min_ready_nodes", whole(), "the number of usable nodes below which nothing is checked (2)"),
    Option("cooldown", seconds(0), "the time between two restarts of one workload (10m)"),
    Option("max_attempts", whole(), "the maximum number of restarts of one workload that made no progress (3)"),
    Option("strategy", one_of(*STRATEGIES), "the way in which replicas are moved (rollout)"),
    Option(
        "spread_constraint",
        one_of(*SPREAD_CONSTRAINTS),
        "keep the spread constraints of the pod templates, or add those that make the spread last (keep)",
    ),
    Option("force_managed", SWITCH, "also add them to workloads of Argo CD, Flux or Helm (false)"),
    Option("allow_downtime", SWITCH, "also restart workloads of which no pod may be available meanwhile (false)"),
    Option("max_parallel", whole(), "the maximum number of workloads that are restarted at the same time (1)"),
    Option("max_workloads", whole(), "the maximum number of workloads that one pass moves (no maximum)"),
    Option("max_evictions", whole(), "the maximum number of pods that one pass evicts (no maximum)"),
    Option("max_evictions_per_node", whole(), "the same for each node (no maximum)"),
    Option("max_evictions_per_namespace", whole(), "the same for each namespace (no maximum)"),
    Option("wait", SWITCH, "wait for the end of each rollout; otherwise the next pass checks the result (true)"),
    Option("wait_timeout", seconds(0), "the maximum time for one rollout or one eviction (10m)"),
    Option("wait_sleep", seconds(0), "the time between two reads of a workload if watching is forbidden (5s)"),
    Option("verify_spread", SWITCH, "check the spread after each rollout (true)"),
    SCHEDULER_CONFIG,
    Option("interval", seconds(0), "the time between two passes; 0 for one pass, after which the program ends (0)"),
    Option(
        "listen_address",
        NO_ADDRESS,
        "with an interval, the address of metrics and health; empty for none, :9236 for all addresses (127.0.0.1:9236)",
        may_be_empty=True,
    ),
    Option("pushgateway_url", PUSHGATEWAY, "the Pushgateway that gets the metrics of each pass (none)"),
    Option(
        "metrics_path",
        text("FILE", is_good=lambda path: path.endswith(".prom"), expected="node_exporter reads only files whose names end with .prom"),
        "a file for node_exporter's textfile collector with these metrics (none)",
    ),
    Option("dry_run", SWITCH, "log the plan and change nothing (false)"),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad (false)"),
    *CONNECTION_AND_LOG,
)
PROGRAM = Program("rebalancer", "Restarts workloads whose replicas a restart spreads better.", OPTIONS, example="max_workloads: 5")


@dataclasses.dataclass(frozen=True)
class Settings(CommonSettings):
    """The settings of the rebalancer. ``interval`` is in whole seconds; 0 means one pass.

    If ``listen_address`` is None, nothing is served.
    """

    options: PassOptions
    interval: int = 0
    listen_address: Address | None = DEFAULT_LISTEN
    pushgateway_url: str | None = None
    metrics_path: str | None = None
    dry_run: bool = False


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the checked settings. Raises SettingsError with all wrong settings, and SystemExit after --help."""
    found = settings.read_settings(PROGRAM, arguments, environment, _settings)
    if environment.get("DEV") and found.kubeconfig is None:
        # The variables of the CronJob that this program replaces.
        return dataclasses.replace(found, kubeconfig=environment.get("KUBE_CONFIG") or DEFAULT_KUBECONFIG)
    return found


def _settings(values: Mapping[str, t.Any]) -> Settings:
    """Return the settings. Raises OptionError for the first wrong value."""
    own = {name: value for name, value in values.items() if name in Settings.__dataclass_fields__}
    params = {**DEFAULTS, **values}
    check = check_options(params)
    restart = dataclasses.replace(restart_options(params, dry_run=own.get("dry_run", False)), asks_server=False)
    return Settings(PassOptions(check, restart), **own)
