# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checked settings of the rescuer."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...plugins.module_utils.model.option_values import LONGEST_S, OptionError
from ...plugins.module_utils.rescue.options import RescueOptions, rescue_options
from ..common.addresses import Address, parse_address
from ..common.settings import ErrorCollector, Program, collect_given, collect_options, collect_values
from .options import OPTIONS

PROGRAM = Program(
    "rescuer", "Frees capacity for critical pods for which the scheduler finds no node.", OPTIONS, example="grace_period: 30s"
)
DEFAULT_LISTEN_ADDRESS = "127.0.0.1:9235"
OWN_MINIMA = {"housekeeping_interval": 1, "initial_delay": 0, "stop_timeout": 0}
"""The minimum of each time, in seconds, that belongs to the program and not to the rescue."""


@dataclass(frozen=True)
class Settings:
    """The settings of the rescuer. Times are whole seconds. If ``listen`` is None, nothing is served."""

    rescue: RescueOptions
    housekeeping_interval: int = 10
    initial_delay: int = 0
    stop_timeout: int = 20
    listen: Address | None = None
    dry_run: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    log_format: str = "json"
    log_level: str = "info"
    check_config: bool = False


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the checked settings. Raises SettingsErrors with all wrong settings, and SystemExit after --help."""
    errors = ErrorCollector()
    given = collect_given(PROGRAM, arguments, environment, errors)
    values = collect_values(OPTIONS, given, errors)
    settings = collect_options(_settings, values, given, errors)
    errors.raise_any()
    assert settings is not None, "without an error there are settings"
    return settings


def _settings(values: Mapping[str, t.Any]) -> Settings:
    """Return the settings. Raises OptionError for the first wrong value."""
    rescue = rescue_options(values)
    own = {option.name: values[option.name] for option in OPTIONS if option.own and option.name in values}
    for name, least in OWN_MINIMA.items():
        if name in own and not least <= own[name] <= LONGEST_S:
            raise OptionError(f"{name} is {own[name]}: it must be between {least} and {LONGEST_S} seconds")
    address = own.pop("listen_address", DEFAULT_LISTEN_ADDRESS)
    try:
        listen = parse_address(address) if address else None
    except ValueError as error:
        raise OptionError(str(error)) from error
    return Settings(rescue, listen=listen, **own)
