# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rescuer's settings from FILE, the environment and the command line, the later ones winning."""

from __future__ import annotations

import argparse
import difflib
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import (
    SettingsError as YamlError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_source import load_yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.request import RescueOptionError, rescue_options

from ...plugins.module_utils.rescue.options import RescueOptions
from .address import Address, parse_address
from .options import OPTIONS, PREFIX, SWITCH, Option

PROGRAM = "python -m ansible_collections.onprem.kube_scheduling.services.rescuer"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
DEFAULT_LISTEN_ADDRESS = "127.0.0.1:9235"

# What the kubelet tells containers of Services whose names begin with "rescuer".
_SERVICE_LINK = re.compile(rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


class SettingsError(ValueError):
    """A setting cannot be used; the text names it, where it comes from, and what could be used."""


@dataclass(frozen=True)
class Settings:
    """Everything that the rescuer was told. Times are whole seconds; ``listen`` None: nothing is served."""

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


class _Given(t.NamedTuple):
    """A value as it was found; ``origin`` says where."""

    value: t.Any
    origin: str


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings, checked. Raises SettingsError; SystemExit after --help."""
    flags = _from_flags(arguments)
    variables = _from_environment(environment)
    config = flags.pop("config", None) or variables.pop("config", None)
    given = {**(_from_file(config) if config else {}), **variables, **flags}
    values = {option.name: _parse(option, given[option.name]) for option in OPTIONS if option.name in given}
    return _settings(values, given)


def _settings(values: Mapping[str, t.Any], given: Mapping[str, _Given]) -> Settings:
    own = {option.name: values[option.name] for option in OPTIONS if option.own and option.name in values}
    address = own.pop("listen_address", DEFAULT_LISTEN_ADDRESS)
    try:
        rescue = rescue_options(values)
    except RescueOptionError as error:
        # The text begins with the option's name.
        raise SettingsError(f"{_origin(str(error).partition(' ')[0], given)}{error}") from error
    if own.get("housekeeping_interval") == 0:
        raise SettingsError(f"{_origin('housekeeping_interval', given)}housekeeping_interval is 0: it has to be at least 1")
    try:
        listen = parse_address(address) if address else None
    except ValueError as error:
        raise SettingsError(f"{_origin('listen_address', given)}{error}") from error
    return Settings(rescue, listen=listen, **own)


def _origin(name: str, given: Mapping[str, _Given]) -> str:
    """Where the setting stands; its name is left out, because the texts of these errors begin with it."""
    return f"{given[name].origin.removesuffix(f', {name}')}: " if name in given else ""


def _parse(option: Option, given: _Given) -> t.Any:
    try:
        return option.kind.parse(given.value)
    except ValueError as error:
        raise SettingsError(f"{given.origin}: {error}") from error


# --- sources ----------------------------------------------------------------------------------------------------------


def _from_flags(arguments: Sequence[str]) -> dict[str, _Given]:
    parser = _parser()
    try:
        found, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise SettingsError(str(error)) from error
    if unknown:
        flag = unknown[0].partition("=")[0]
        raise SettingsError(f"{flag} is no flag{_nearest(flag, ['--config', *(option.flag for option in OPTIONS)])}")
    names = {"config": "--config", **{option.name: option.flag for option in OPTIONS}}
    return {name: _Given(value, f"flag {names[name]}") for name, value in vars(found).items() if value is not None}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Makes room for critical pods that the scheduler finds no node for.",
        epilog=f"Each setting may also stand in FILE, by its name with underscores, or in the environment, such as {OPTIONS[3].variable}."
        " Flags win over the environment, and that over FILE.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML with settings by their names")
    for option in OPTIONS:
        # A switch may stand alone, as in Go.
        optional: dict[str, t.Any] = {"nargs": "?", "const": "true"} if option.kind is SWITCH else {}
        parser.add_argument(option.flag, dest=option.name, metavar=option.kind.metavar, help=option.help, **optional)
    return parser


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    known = {CONFIG_VARIABLE: "config", **{option.variable: option.name for option in OPTIONS}}
    may_be_empty = {option.variable for option in OPTIONS if option.may_be_empty}
    found = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        if variable in known:
            if value or variable in may_be_empty:
                found[known[variable]] = _Given(value, f"variable {variable}")
        elif not _SERVICE_LINK.fullmatch(variable):
            raise SettingsError(f"variable {variable} is no setting{_nearest(variable, known)}")
    return found


def _from_file(config: _Given) -> dict[str, _Given]:
    try:
        data = Path(config.value).read_bytes()
        content = load_yaml(data)
    except OSError as error:
        raise SettingsError(f"{config.origin}: {config.value} cannot be read: {error}") from error
    except YamlError as error:
        raise SettingsError(f"{config.origin}: {config.value} cannot be read: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"file {config.value}: settings by their names are expected, such as grace_period: 30s")
    _check_given_once(config.value, data)
    known = [option.name for option in OPTIONS]
    for key in content:
        if key not in known:
            raise SettingsError(f"file {config.value}: {key} is no setting{_nearest(str(key), known)}")
    return {key: _Given(value, f"file {config.value}, {key}") for key, value in content.items() if value is not None}


def _check_given_once(file: str, data: bytes) -> None:
    """Refuse a name that stands twice: YAML would take the last one without a word."""
    seen: dict[str, int] = {}
    root = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    for key, _value in root.value if root is not None else ():
        line = key.start_mark.line + 1
        if key.value in seen:
            raise SettingsError(f"file {file}: {key.value} stands in line {seen[key.value]} and in line {line}; keep one of them")
        seen[key.value] = line


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; the nearest is {found[0]}" if found else ""
