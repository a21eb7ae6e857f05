# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the extender, and its checked settings from FILE, the environment and the flags."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....plugins.module_utils.model.codec import Struct
from ...common import settings
from ...common.addresses import ADDRESS, NO_ADDRESS, Address
from ...common.kinds import SWITCH, exact_seconds, text, whole
from ...common.settings import LOG_FORMAT, Option, Program, Values, read_values
from ...common.typed_settings import SettingsError, read
from ..agents.original.variables import LEVEL, Original, read_original
from ..engine.profile import Profile
from ..http.tls import TlsFiles
from ..sources.settings import SourceSettings
from .profiles import BuiltAgent, ProfileBuilder

DEFAULT_LISTEN = Address("0.0.0.0", 8080)
MAX_BODY_BYTES = 32 * 1024 * 1024
"""About 3,000 whole nodes. With nodeCacheCapable a request with 5,000 nodes has 150 kB."""

REQUEST_TIMEOUT_S = 10.0

OPTIONS = (
    Option("listen", ADDRESS, "the address for the scheduler; :8080 for all addresses (0.0.0.0:8080)"),
    Option(
        "status_address",
        NO_ADDRESS,
        "a second address for people, probes and Prometheus, without TLS; it does not serve the scheduler (none)",
        may_be_empty=True,
    ),
    Option("log_level", LEVEL, "the lowest level of the lines (info)"),
    LOG_FORMAT,
    Option("record", text("FILE"), "write the requests of the scheduler to this file, to develop an agent with them"),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad"),
    Option("check_sources", SWITCH, "read the sources once, print the values of each node and end: 0 good, 2 bad"),
)
"""The settings that have a flag and a variable. The others are only in FILE."""

PROGRAM = Program(
    "extender",
    "Scores and filters nodes for kube-scheduler by live signals.",
    OPTIONS,
    example="listen: 0.0.0.0:8080",
    sections=("sources", "profiles", "server"),
)


class ServerSettings(Struct, frozen=True):
    """The settings of the server that are only in FILE. Without ``tls`` the main address has no TLS."""

    tls: TlsFiles | None = None
    max_body_bytes: t.Annotated[int, whole(64 * 1024, 1024 * 1024 * 1024)] = MAX_BODY_BYTES
    request_timeout_s: t.Annotated[float, exact_seconds(0.1, 300)] = REQUEST_TIMEOUT_S


@dataclass(frozen=True)
class Settings:
    """The settings of the extender.

    ``values``: the settings as they were given. ``status_address`` is None if there is no second address. ``agents``: the agents of the
    profiles with their arguments. ``refused``: sentences about agents that are left out, because they cannot be used. ``notes``:
    sentences about settings that are ignored or have no effect.
    """

    values: Values
    server: ServerSettings
    sources: SourceSettings
    profiles: Mapping[str, Profile]
    agents: Sequence[BuiltAgent]
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    listen: Address = DEFAULT_LISTEN
    status_address: Address | None = None
    log_format: str = "json"
    log_level: str = "info"
    record: str = ""
    check_config: bool = False
    check_sources: bool = False


class Inputs(t.NamedTuple):
    """The inputs of the settings other than FILE. They do not change while the program runs."""

    given: settings.Inputs
    original: Original


def read_inputs(arguments: Sequence[str], environment: Mapping[str, str]) -> Inputs:
    """Return the flags and the variables. Raises SettingsError, and SystemExit after --help."""
    given = settings.read_inputs(PROGRAM, arguments, environment)
    if not given.file:
        raise SettingsError(*map(str, given.mistakes), "--config FILE is missing: FILE has the profiles and the sources")
    try:
        return Inputs(given, read_original(environment, Path(given.file).parent))
    except ValueError as error:
        raise SettingsError(*map(str, given.mistakes), str(error)) from None


def read_settings(inputs: Inputs, before: Settings | None = None) -> Settings:
    """Return the checked settings. ``before``: the settings in use, whose agents are used again. Raises SettingsError with all mistakes."""
    original = inputs.original
    values = read_values(inputs.given)
    options, content, mistakes = values.options, values.document.content, values.mistakes
    server = read(ServerSettings, content.get("server"), ("server",), mistakes)
    sources = read(SourceSettings, _sources(content), ("sources",), mistakes)
    builder = ProfileBuilder(values, original.args, sources, before.agents if before is not None else ())
    profiles = builder.build(content.get("profiles"))
    values.raise_any()
    assert server is not None and sources is not None, "without a mistake there are settings"
    if original.log_level is not None and "log_level" not in inputs.given.flags:
        options["log_level"] = original.log_level
    if "listen" not in inputs.given.flags:
        listen = options.get("listen", DEFAULT_LISTEN)
        options["listen"] = Address(original.host or listen.host, original.port or listen.port)
    unused = sorted(original.args) if not {one.name for one in builder.agents} & set(original.args) else []
    return Settings(
        values,
        server,
        sources,
        profiles,
        builder.agents,
        tuple(map(values.shown, builder.refused)),
        (
            *original.notes,
            *([f"variables for the agents {', '.join(unused)} are ignored: no profile of FILE has one of these agents"] if unused else []),
            *map(values.shown, builder.notes),
        ),
        **options,
    )


def _sources(content: Mapping[str, t.Any]) -> t.Any:
    """Return the sources. If the key prometheus has no value, it counts as settings without urls, which is a mistake."""
    given: t.Any = content.get("sources")
    has_empty = isinstance(given, Mapping) and "prometheus" in given and given["prometheus"] is None
    return {**given, "prometheus": {}} if has_empty else given
