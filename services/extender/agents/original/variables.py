# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The environment variables of kube-safe-scheduler, and its file pigeon.cfg, so that an old deployment can keep them."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ....common.kinds import Kind, one_of, whole
from ....common.settings import LOG_LEVELS

LEVELS_OF_ORIGINAL = {"trace": "debug", "alert": "error"}
"""The levels of kube-safe-scheduler that this program does not have, and the nearest of its levels."""


def _parse_level(value: t.Any) -> t.Any:
    """Return a level of the log in lower case. Raises ValueError."""
    level = value.strip().lower() if isinstance(value, str) else ""
    return one_of(*LOG_LEVELS).parse(LEVELS_OF_ORIGINAL.get(level, level))


LEVEL = Kind(_parse_level, "|".join((*LOG_LEVELS, *LEVELS_OF_ORIGINAL)))
SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://.*")
PIGEON_FILE = "pigeon.cfg"
OBJECTIVE = one_of("A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE")
PORT = whole(1, 65535)


class AgentVariable(t.NamedTuple):
    """A variable of the original: the agents and the argument that it sets, and its values."""

    agents: tuple[str, ...]
    argument: str
    kind: Kind


class Original(t.NamedTuple):
    """The values of the original's variables.

    ``args``: the arguments by the name of the agent. ``notes``: sentences about values that were ignored.
    """

    host: str | None
    port: int | None
    log_level: str | None
    args: Mapping[str, Mapping[str, t.Any]]
    notes: tuple[str, ...]


SAFE = ("safe_overload", "safe_balance")
VARIABLES = {
    "SAFEUTILIZATION": AgentVariable(SAFE, "utilisation", whole(1, 100)),
    "SAFEPERCENTILE": AgentVariable(SAFE, "percentile", whole(0, 100)),
    "SAFEFORECASTWEIGHT": AgentVariable(SAFE, "forecast_weight", whole(0, 100)),
    "CONGESTION_FACTOR_MAX": AgentVariable(("congestion",), "max", whole(1, 999_999_999)),
    "NUM_RESOURCES": AgentVariable(("pigeon",), "num_resources", whole(1, 5)),
    "POLICY_OBJECTIVE": AgentVariable(("pigeon",), "policy_objective", OBJECTIVE),
}
IGNORED_VARIABLES = {"SAFEPRINTTABLE": "/explain has the table"}
"""The variables of the original without a setting, with the reason."""

PIGEON_KEYS = {
    "policyResourceIndex": AgentVariable(("pigeon",), "policy_resource_index", whole(0, 4)),
    "policyObjective": AgentVariable(("pigeon",), "policy_objective", OBJECTIVE),
}


def read_original(environment: Mapping[str, str], folder: Path) -> Original:
    """Return the values. ``folder`` is the place of pigeon.cfg. A value that cannot be used is ignored, as in the original, with a note."""
    notes: list[str] = []
    args: dict[str, dict[str, t.Any]] = {}
    given = [(f"{PIGEON_FILE}, {key}", text, PIGEON_KEYS[key]) for key, text in _pigeon_lines(folder, notes)]
    given += [(f"variable {name}", environment[name].strip(), VARIABLES[name]) for name in VARIABLES if environment.get(name)]
    for origin, text, variable in given:
        try:
            value = variable.kind.parse(text)
        except ValueError as error:
            notes.append(f"{origin} is {text!r} and is ignored: {error}")
            continue
        for agent in variable.agents:
            args.setdefault(agent, {})[variable.argument] = value
    for name, reason in IGNORED_VARIABLES.items():
        if environment.get(name):
            notes.append(f"variable {name} is {environment[name].strip()!r} and is ignored: {reason}")
    host = environment.get("HTTP_HOST", "").strip() or None
    return Original(host, _port(environment, notes), _level(environment, notes), args, tuple(notes))


def _pigeon_lines(folder: Path, notes: list[str]) -> list[tuple[str, str]]:
    try:
        lines = (folder / PIGEON_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        notes.append(f"{PIGEON_FILE} cannot be read and is ignored: {error}")
        return []
    pairs = [(key.strip(), value.strip()) for key, mark, value in (line.partition("=") for line in lines) if mark]
    notes += [f"{PIGEON_FILE} has the key {key}, which is ignored" for key, _value in pairs if key not in PIGEON_KEYS]
    return [(key, value) for key, value in pairs if key in PIGEON_KEYS]


def _port(environment: Mapping[str, str], notes: list[str]) -> int | None:
    text = environment.get("HTTP_PORT", "").strip()
    if not text:
        return None
    if SERVICE_LINK.fullmatch(text):
        notes.append(
            f"variable HTTP_PORT is {text!r} and is ignored: the kubelet has set it for a Service named http in this namespace."
            " Set enableServiceLinks: false in the pod, or rename the Service, to use the variable"
        )
        return None
    try:
        return int(PORT.parse(text))
    except ValueError as error:
        raise ValueError(f"variable HTTP_PORT is {text!r}: {error}") from None


def _level(environment: Mapping[str, str], notes: list[str]) -> str | None:
    text = environment.get("LOG_LEVEL", "").strip()
    try:
        return str(LEVEL.parse(text)) if text else None
    except ValueError as error:
        notes.append(f"variable LOG_LEVEL is {text!r} and is ignored: {error}")
        return None
