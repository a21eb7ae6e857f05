# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One option of a program: its name in FILE, its flag, its variable, and the values that it accepts."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ...plugins.module_utils.model.values.duration import parse_duration
from ...plugins.module_utils.model.values.shown import shown_value

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "text")


class Kind(t.NamedTuple):
    """A type of value. ``metavar`` is the placeholder for a value in the help.

    ``parse`` accepts a text or a value from YAML, and raises ValueError.
    """

    metavar: str
    parse: Callable[[t.Any], t.Any]


class Option(t.NamedTuple):
    """One option of a program. If there is no ``original_flag``, the flag is derived from the name.

    ``own``: the option belongs to the program and not to the feature.
    """

    name: str
    kind: Kind
    help: str
    own: bool = False
    original_flag: str = ""
    may_be_empty: bool = False

    @property
    def flag(self) -> str:
        """Return the flag on the command line."""
        return self.original_flag or "--" + self.name.replace("_", "-")

    def variable(self, prefix: str) -> str:
        """Return the environment variable, for a program whose variables have this prefix."""
        return prefix + self.name.upper()


def _integer(value: t.Any) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError
        return int(value)
    except ValueError:
        raise ValueError(f"{shown_value(value)} is not a whole number") from None


def _switch(value: t.Any) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = known.get(str(value).strip().lower())
    if found is None:
        raise ValueError(f"{shown_value(value)} is neither true nor false")
    return found


def parse_text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown_value(value)} is not a string: put it into quotes")
    return value


def _names(value: t.Any) -> list[str]:
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{shown_value(value)} is not a list of names, each of which is a text")
    return [name.strip() for name in found]


def one_of(*words: str) -> Callable[[t.Any], str]:
    def parse(value: t.Any) -> str:
        if value not in words:
            raise ValueError(f"{shown_value(value)} is not one of {', '.join(words)}")
        return str(value)

    return parse


DURATION = Kind("DURATION", parse_duration)
INTEGER = Kind("N", _integer)
SWITCH = Kind("true|false", _switch)
TEXT = Kind("TEXT", parse_text)
NAMES = Kind("NAME,NAME", _names)

SCHEDULER_CONFIG = Option(
    "scheduler_config",
    NAMES,
    "the configurations of kube-scheduler: paths of files, or configmap:NAMESPACE/NAME/KEY (the default profile)",
)

CONNECTION_AND_LOG = (
    Option("kubeconfig", Kind("FILE", parse_text), "the connection (the pod's service account, otherwise as kubectl)", own=True),
    Option("context", TEXT, "the kubeconfig's context", own=True),
    Option("log_format", Kind("|".join(LOG_FORMATS), one_of(*LOG_FORMATS)), "one JSON object a line, or readable text (json)", own=True),
    Option("log_level", Kind("|".join(LOG_LEVELS), one_of(*LOG_LEVELS)), "the lowest level of the lines that are written (info)", own=True),
)
"""The options for the connection and the log, which the rebalancer and the rescuer have."""
