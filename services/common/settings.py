# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a program: the values of its options from FILE, the environment and the command line, each with its origin.

The environment has precedence over FILE, and the command line over both.
"""

from __future__ import annotations

import argparse
import re
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...plugins.module_utils.model.option_values import OptionError
from ...plugins.module_utils.model.values.nearest import nearest
from .document import Document, read_document
from .kinds import SWITCH, TEXT, Kind, names, one_of, text
from .typed_settings import WRONG, Mistake, Mistakes, SettingsError, read_value

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "text")

T = t.TypeVar("T")


class Option(t.NamedTuple):
    """One option of a program. If there is no ``original_flag``, the flag is derived from the name.

    ``may_be_empty``: an empty variable of the environment counts.
    """

    name: str
    kind: Kind
    help: str
    original_flag: str = ""
    may_be_empty: bool = False

    @property
    def flag(self) -> str:
        """Return the flag on the command line."""
        return self.original_flag or "--" + self.name.replace("_", "-")


SCHEDULER_CONFIG = Option(
    "scheduler_config",
    names(),
    "the configurations of kube-scheduler: paths of files, or configmap:NAMESPACE/NAME/KEY (the default profile)",
)
LOG_FORMAT = Option("log_format", one_of(*LOG_FORMATS), "one JSON object a line, or readable text (json)")
CONNECTION_AND_LOG = (
    Option("kubeconfig", text("FILE"), "the connection (the pod's service account, otherwise as kubectl)"),
    Option("context", TEXT, "the kubeconfig's context"),
    LOG_FORMAT,
    Option("log_level", one_of(*LOG_LEVELS), "the lowest level of the lines that are written (info)"),
)
"""The options for the connection and the log, which the rebalancer and the rescuer have."""


@dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """The settings that every program has: those of CONNECTION_AND_LOG. ``check_config``: only check the settings."""

    kubeconfig: str | None = None
    context: str | None = None
    log_format: str = "json"
    log_level: str = "info"
    check_config: bool = False


class Program(t.NamedTuple):
    """A program with settings: its ``name``, such as rescuer, and its help. ``example`` is a line of FILE with a setting.

    ``sections``: the names of the settings of FILE that have no flag.
    """

    name: str
    description: str
    options: Sequence[Option]
    example: str
    sections: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command that starts the program."""
        return f"python -m ansible_collections.onprem.kube_scheduling.services.{self.name}"

    @property
    def prefix(self) -> str:
        """Return the prefix of its environment variables."""
        return f"{self.name.upper()}_"


class Given(t.NamedTuple):
    """A text of the command line or of the environment, and the name of the flag or variable."""

    value: str
    origin: str


class Inputs(t.NamedTuple):
    """The flags and the variables of a program by the names of their settings, and FILE. They do not change while the program runs."""

    program: Program
    flags: Mapping[str, Given]
    variables: Mapping[str, Given]
    mistakes: tuple[Mistake, ...]

    @property
    def file(self) -> str:
        """Return the path of FILE, or an empty text if there is none."""
        found = self.flags.get("config") or self.variables.get("config")
        return found.value if found is not None else ""


class Values(t.NamedTuple):
    """The values of the options that are given and can be used, FILE, and the mistakes up to now."""

    inputs: Inputs
    document: Document
    options: dict[str, t.Any]
    mistakes: Mistakes

    def shown(self, mistake: Mistake) -> str:
        """Return a mistake for people, with the flag, the variable, or the place in FILE."""
        name = mistake.path[0] if mistake.path else ""
        given = self.inputs.flags.get(str(name)) or self.inputs.variables.get(str(name))
        return f"{given.origin}{mistake.problem}" if given is not None else self.document.shown(mistake)

    def raise_any(self) -> None:
        """Raise SettingsError if there are mistakes."""
        if self.mistakes:
            raise SettingsError(*map(self.shown, self.mistakes))


def read_settings(
    program: Program, arguments: Sequence[str], environment: Mapping[str, str], build: Callable[[Mapping[str, t.Any]], T]
) -> T:
    """Return the settings that ``build`` makes of the values of the options. Raises SettingsError, and SystemExit after --help.

    After an OptionError, whose text begins with the name of the option, ``build`` is called again without that option, so that the error
    has all wrong values.
    """
    values = read_values(read_inputs(program, arguments, environment))
    left = dict(values.options)
    while True:
        try:
            settings = build(left)
            break
        except OptionError as error:
            known = [option.name for option in program.options]
            values.mistakes.add_named((), str(error), known)
            wrong = values.mistakes[-1].path
            if not wrong or left.pop(str(wrong[0]), None) is None:
                break
    values.raise_any()
    return settings


def read_inputs(program: Program, arguments: Sequence[str], environment: Mapping[str, str]) -> Inputs:
    """Return the flags and the variables. Raises SystemExit after --help."""
    mistakes = Mistakes()
    flags, variables = _flags_given(program, arguments, mistakes), _variables_given(program, environment, mistakes)
    return Inputs(program, flags, variables, tuple(mistakes))


def read_values(inputs: Inputs) -> Values:
    """Return the values of the options. Raises SettingsError if FILE cannot be read."""
    mistakes = Mistakes(inputs.mistakes)
    try:
        document = read_document(inputs.file) if inputs.file else Document()
    except SettingsError as error:
        raise SettingsError(*map(str, mistakes), *error.errors) from None
    program, of_file = inputs.program, Mistakes(document.mistakes)
    of_file.add_unknown((), document.content, [*(option.name for option in program.options), *program.sections])
    # They are about FILE, also if a flag or a variable replaces the value.
    mistakes += [Mistake((), document.shown(one)) for one in of_file]
    given = {**document.content, **{name: one.value for name, one in {**inputs.variables, **inputs.flags}.items()}}
    values = {}
    for option in program.options:
        if given.get(option.name) is not None:
            value = read_value(option.kind, given[option.name], (option.name,), mistakes)
            if value is not WRONG:
                values[option.name] = value
    return Values(inputs, document, values, mistakes)


def _flags_given(program: Program, arguments: Sequence[str], mistakes: Mistakes) -> dict[str, Given]:
    """Return the settings of the command line by name. Raises SystemExit after --help."""
    parser = _parser(program)
    try:
        found, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        mistakes.add((), str(error))
        return {}
    flags = {"config": "--config", **{option.name: option.flag for option in program.options}}
    # A word after an unknown flag is probably its value.
    for flag in (word.partition("=")[0] for number, word in enumerate(unknown) if word.startswith("-") or not number):
        mistakes.add((), f"{flag} is not a flag{nearest(flag, flags.values())}")
    return {name: Given(value, f"flag {flags[name]}") for name, value in vars(found).items() if value is not None}


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


def _variables_given(program: Program, environment: Mapping[str, str], mistakes: Mistakes) -> dict[str, Given]:
    """Return the settings of the environment by name."""
    prefix = program.prefix
    known = {f"{prefix}CONFIG": "config", **{prefix + option.name.upper(): option.name for option in program.options}}
    may_be_empty = {option.name for option in program.options if option.may_be_empty}
    # The kubelet sets such variables for a Service whose name begins like the name of the program.
    service_link = re.compile(prefix + r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
    found = {}
    for variable, value in sorted(environment.items()):
        if variable in known and (value or known[variable] in may_be_empty):
            found[known[variable]] = Given(value, f"variable {variable}")
        elif variable.startswith(prefix) and variable not in known and not service_link.fullmatch(variable):
            mistakes.add((), f"variable {variable} is not a setting{nearest(variable, known)}")
    return found
