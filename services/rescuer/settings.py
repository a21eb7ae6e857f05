# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checked settings of the rescuer."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...plugins.module_utils.model.option_values import LONGEST_S
from ...plugins.module_utils.rescue.options import RescueOptions, read_rescue_options
from ..common.addresses import Address, parse_address
from ..common.settings import CollectedErrors, Given, Program, SettingsError, origin_of, read_values
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
    """Return the checked settings. Raises SettingsErrors with each wrong setting, and SystemExit after --help."""
    errors = CollectedErrors()
    values, given = read_values(PROGRAM, arguments, environment, errors)
    rescue, texts = read_rescue_options(values)
    errors.errors += [_error(text, given) for text in (*texts, *_own_violations(values))]
    own = {option.name: values[option.name] for option in OPTIONS if option.own and option.name in values}
    address = own.pop("listen_address", DEFAULT_LISTEN_ADDRESS)
    listen = None
    try:
        listen = parse_address(address) if address else None
    except ValueError as error:
        errors.errors.append(SettingsError(f"{origin_of('listen_address', given)}{error}"))
    errors.raise_any()
    return Settings(rescue, listen=listen, **own)


def _error(text: str, given: Mapping[str, Given]) -> SettingsError:
    """Return the error with this text, which begins with the name of an option, and the origin of the setting."""
    return SettingsError(f"{origin_of(text.partition(' ')[0], given)}{text}")


def _own_violations(values: Mapping[str, t.Any]) -> list[str]:
    wrong = [(name, least) for name, least in OWN_MINIMA.items() if not least <= values.get(name, least) <= LONGEST_S]
    return [f"{name} is {values[name]}: it must be between {least} and {LONGEST_S} seconds" for name, least in wrong]
