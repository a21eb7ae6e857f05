# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a program: the values of its options from FILE, the environment and the command line, each with its origin.

The environment has precedence over FILE, and the command line over both.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ...plugins.module_utils.model.option_values import OptionError
from ...plugins.module_utils.model.values.nearest import nearest
from ...plugins.module_utils.model.values.shown import shown_key
from .options import SWITCH, Option
from .yaml_document import read_yaml, repeated_keys

T = t.TypeVar("T")


class SettingsError(ValueError):
    """A setting cannot be used. The text names it, its origin, and the values that can be used."""


class SettingsErrors(SettingsError):
    """One or several settings cannot be used. ``errors``: an error for each."""

    def __init__(self, errors: Sequence[SettingsError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


class ErrorCollector:
    """Collects the errors of settings that do not depend on each other, so that one run names all of them."""

    def __init__(self) -> None:
        self.errors: list[SettingsError] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the SettingsError that ends the block, and continue after the block."""
        try:
            yield
        except SettingsError as error:
            self.errors += errors_of(error)

    def raise_any(self) -> None:
        """Raise SettingsErrors if there was an error."""
        if self.errors:
            raise SettingsErrors(self.errors)


def errors_of(error: SettingsError) -> tuple[SettingsError, ...]:
    """Return an error for each setting that cannot be used."""
    return error.errors if isinstance(error, SettingsErrors) else (error,)


class Given(t.NamedTuple):
    """A value as it was found, and the place where it was found."""

    value: t.Any
    origin: str


def origin_of(name: str, given: Mapping[str, Given]) -> str:
    """Return the origin of the setting without its name, because the texts of these errors begin with the name."""
    return f"{given[name].origin.removesuffix(f', {name}')}: " if name in given else ""


def parse_given(option: Option, given: Given) -> t.Any:
    try:
        return option.kind.parse(given.value)
    except ValueError as error:
        raise SettingsError(f"{given.origin}: {error}") from error


class Program(t.NamedTuple):
    """A program with settings: its ``name``, such as rescuer, and its help. ``example`` is a line of FILE with a setting."""

    name: str
    description: str
    options: Sequence[Option]
    example: str

    @property
    def command(self) -> str:
        """Return the command that starts the program."""
        return f"python -m ansible_collections.onprem.kube_scheduling.services.{self.name}"

    @property
    def prefix(self) -> str:
        """Return the prefix of its environment variables."""
        return f"{self.name.upper()}_"

    def is_service_link(self, variable: str) -> bool:
        """Return whether the kubelet has set the variable for a Service whose name begins like the program's name."""
        return bool(re.fullmatch(self.prefix + r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)", variable))


def read_given(program: Program, arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Given]:
    """Return the given settings by name. Raises SettingsErrors.

    Flags have precedence over variables, and variables over FILE.
    """
    errors = ErrorCollector()
    given = collect_given(program, arguments, environment, errors)
    errors.raise_any()
    return given


def collect_given(program: Program, arguments: Sequence[str], environment: Mapping[str, str], errors: ErrorCollector) -> dict[str, Given]:
    """Return the given settings by name, without those that do not exist. The errors have those."""
    flags, variables, file = _flags(program, arguments, errors), _variables(program, environment, errors), dict[str, Given]()
    config = flags.pop("config", None) or variables.pop("config", None)
    if config is not None:
        with errors.collected():
            file = _from_file(program, config, errors)
    return {**file, **variables, **flags}


def collect_values(options: Sequence[Option], given: Mapping[str, Given], errors: ErrorCollector) -> dict[str, t.Any]:
    """Return the parsed values by name, without those that cannot be parsed. The errors have those."""
    values = {}
    for option in options:
        if option.name in given:
            with errors.collected():
                values[option.name] = parse_given(option, given[option.name])
    return values


def collect_options(
    build: Callable[[Mapping[str, t.Any]], T], values: Mapping[str, t.Any], given: Mapping[str, Given], errors: ErrorCollector
) -> T | None:
    """Return the options that ``build`` makes of the values. None if it raises an OptionError that is not about one of them.

    After an OptionError, whose text begins with the name of the option, ``build`` is called again without that option, so that the errors
    have all wrong values.
    """
    left = dict(values)
    while True:
        try:
            return build(left)
        except OptionError as error:
            name = re.split(r"\W", str(error), maxsplit=1)[0]
            errors.errors.append(SettingsError(f"{origin_of(name, given)}{error}"))
            if left.pop(name, None) is None:
                return None


def flags_given(program: Program, arguments: Sequence[str]) -> dict[str, Given]:
    """Return the settings of the command line by name. Raises SettingsErrors, and SystemExit after --help."""
    errors = ErrorCollector()
    given = _flags(program, arguments, errors)
    errors.raise_any()
    return given


def _flags(program: Program, arguments: Sequence[str], errors: ErrorCollector) -> dict[str, Given]:
    parser = _parser(program)
    try:
        found, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        errors.errors.append(SettingsError(str(error)))
        return {}
    known = ["--config", *(option.flag for option in program.options)]
    # A word after an unknown flag is probably its value.
    for flag in (word.partition("=")[0] for number, word in enumerate(unknown) if word.startswith("-") or not number):
        errors.errors.append(SettingsError(f"{flag} is not a flag{nearest(flag, known)}"))
    names = {"config": "--config", **{option.name: option.flag for option in program.options}}
    return {name: Given(value, f"flag {names[name]}") for name, value in vars(found).items() if value is not None}


def _parser(program: Program) -> argparse.ArgumentParser:
    example = program.prefix + program.example.partition(":")[0].upper()
    parser = argparse.ArgumentParser(
        prog=program.command,
        description=program.description,
        epilog=f"Each setting can also be in FILE, by its name with underscores, or in the environment, such as {example}."
        " A flag overrides the environment, and the environment overrides FILE.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML with settings by their names")
    for option in program.options:
        # A switch may have no value, as in Go.
        optional: dict[str, t.Any] = {"nargs": "?", "const": "true"} if option.kind is SWITCH else {}
        parser.add_argument(option.flag, dest=option.name, metavar=option.kind.metavar, help=option.help, **optional)
    return parser


def variables_given(program: Program, environment: Mapping[str, str]) -> dict[str, Given]:
    """Return the settings of the environment by name. Raises SettingsErrors."""
    errors = ErrorCollector()
    given = _variables(program, environment, errors)
    errors.raise_any()
    return given


def _variables(program: Program, environment: Mapping[str, str], errors: ErrorCollector) -> dict[str, Given]:
    prefix = program.prefix
    known = {f"{prefix}CONFIG": "config", **{option.variable(prefix): option.name for option in program.options}}
    may_be_empty = {option.variable(prefix) for option in program.options if option.may_be_empty}
    found = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(prefix):
            continue
        if variable in known:
            if value or variable in may_be_empty:
                found[known[variable]] = Given(value, f"variable {variable}")
        elif not program.is_service_link(variable):
            errors.errors.append(SettingsError(f"variable {variable} is not a setting{nearest(variable, known)}"))
    return found


def _from_file(program: Program, config: Given, errors: ErrorCollector) -> dict[str, Given]:
    try:
        content, root = read_yaml(Path(config.value).read_bytes())
    except OSError as error:
        raise SettingsError(f"{config.origin}: {config.value} cannot be read: {error}") from error
    except ConnectionSettingsError as error:
        raise SettingsError(f"{config.origin}: {config.value} cannot be read: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"file {config.value} is not a mapping: its settings are expected as NAME: VALUE, such as {program.example}")
    for twice in repeated_keys(root):
        errors.errors.append(SettingsError(f"file {config.value}: {twice.name}{twice.problem}"))
    known = [option.name for option in program.options]
    for key in content:
        if key not in known:
            text = f"file {config.value}: {shown_key(key)} is not a setting{nearest(str(key), known)}"
            errors.errors.append(SettingsError(text))
    return {key: Given(content[key], f"file {config.value}, {key}") for key in known if content.get(key) is not None}
