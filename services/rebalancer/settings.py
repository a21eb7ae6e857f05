# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checked settings of the rebalancer."""

from __future__ import annotations

import dataclasses
import typing as t
import urllib.parse
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.model.option_values import LONGEST_S, OptionError
from ...plugins.module_utils.model.well_known import HOSTNAME
from ...plugins.module_utils.operations.rebalance.options import PassOptions
from ...plugins.module_utils.spread.options import DEFAULT_MAX_ATTEMPTS, check_options
from ...plugins.module_utils.spread.restart.options import KEEP, ROLLOUT, restart_options
from ..common.addresses import Address
from ..common.settings import ErrorCollector, Program, collect_options, listen_address, read_values
from .options import OPTIONS

PROGRAM = Program("rebalancer", "Restarts workloads whose replicas a restart spreads better.", OPTIONS, example="max_workloads: 5")
DEFAULT_LISTEN_ADDRESS = "127.0.0.1:9236"
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


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of the rebalancer. ``interval`` is in whole seconds; 0 means one pass. If ``listen`` is None, nothing is served."""

    options: PassOptions
    interval: int = 0
    listen: Address | None = None
    pushgateway_url: str | None = None
    metrics_path: str | None = None
    dry_run: bool = False
    check_config: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    log_format: str = "json"
    log_level: str = "info"


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the checked settings. Raises SettingsErrors with all wrong settings, and SystemExit after --help."""
    errors = ErrorCollector()
    values, given = read_values(PROGRAM, arguments, environment, errors)
    settings = collect_options(_settings, values, given, errors)
    errors.raise_any()
    assert settings is not None, "without an error there are settings"
    if environment.get("DEV") and settings.kubeconfig is None:
        # The variables of the CronJob that this program replaces.
        return dataclasses.replace(settings, kubeconfig=environment.get("KUBE_CONFIG") or DEFAULT_KUBECONFIG)
    return settings


def _settings(values: Mapping[str, t.Any]) -> Settings:
    """Return the settings. Raises OptionError for the first wrong value."""
    own = {option.name: values[option.name] for option in OPTIONS if option.own and option.name in values}
    dry_run = own.get("dry_run", False)
    params = {**DEFAULTS, **values}
    check = check_options(params)
    restart = dataclasses.replace(restart_options(params, dry_run=dry_run), asks_server=False)
    if not 0 <= own.get("interval", 0) <= LONGEST_S:
        raise OptionError(f"interval is {own['interval']}: it must be between 0 and {LONGEST_S} seconds")
    _check_url(own.get("pushgateway_url"))
    _check_metrics_path(own.get("metrics_path"))
    listen = listen_address(own.pop("listen_address", DEFAULT_LISTEN_ADDRESS))
    return Settings(PassOptions(check, restart), listen=listen, **own)


def _check_url(url: str | None) -> None:
    """Raise OptionError for a text that is no base address. It is not part of the error, because it may have a password."""
    if url is not None and not _is_base_address(url):
        raise OptionError(
            "pushgateway_url: it is not the address of a Pushgateway; write it as http://HOST:PORT, without a user or a query"
        )


def _is_base_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return False
    has_more = parts.username is not None or bool(parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and not has_more


def _check_metrics_path(path: str | None) -> None:
    if path is not None and not path.endswith(".prom"):
        raise OptionError(f"metrics_path is {path}: node_exporter reads only files whose names end with .prom")
