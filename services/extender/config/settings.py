# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checked settings of the extender, from FILE, the environment and the flags."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....plugins.module_utils.model.values.nearest import nearest
from ....plugins.module_utils.model.values.shown import shown_key
from ...common.addresses import Address, parse_address
from ...common.options import Option
from ...common.settings import ErrorCollector, Given, SettingsError, SettingsErrors, errors_of, flags_given, parse_given, variables_given
from ..engine.profile import Profile
from ..http.tls import TlsFiles
from ..interface import Agent
from ..settings_errors import ErrorList, FileSettingError
from ..sources.settings import SourceSettings, read_source_settings
from ..sources.settings_section import Section
from .document import Document, read_document
from .options import FILE_ONLY, OPTIONS, PROGRAM
from .original import Original, read_original, with_original
from .profiles import AgentKey, ProfileBuilder, ProfileEntry, read_profiles

DEFAULT_LISTEN = "0.0.0.0:8080"
MAX_BODY_BYTES = 32 * 1024 * 1024
"""About 3,000 whole nodes. With nodeCacheCapable a request with 5,000 nodes has 150 kB."""

REQUEST_TIMEOUT_S = 10.0
LEAST_BODY_BYTES, MOST_BODY_BYTES = 64 * 1024, 1024 * 1024 * 1024
LONGEST_REQUEST_S = 300.0


@dataclass(frozen=True)
class ServerSettings:
    """The settings of the server that are only in FILE. Without ``tls`` the main address has no TLS."""

    tls: TlsFiles | None = None
    max_body_bytes: int = MAX_BODY_BYTES
    request_timeout_s: float = REQUEST_TIMEOUT_S


@dataclass(frozen=True)
class Settings:
    """The settings of the extender.

    ``status`` is None if there is no second address. ``agents``: the agents by profile, name and arguments. ``refused``: sentences about
    agents that are left out, because they cannot be used. ``notes``: sentences about settings that are ignored or have no effect.
    """

    document: Document
    listen: Address
    status: Address | None
    server: ServerSettings
    sources: SourceSettings
    profiles: Mapping[str, Profile]
    agents: Mapping[AgentKey, Agent]
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log_format: str = "json"
    log_level: str = "info"
    record: str = ""
    check_config: bool = False
    check_sources: bool = False


class Inputs(t.NamedTuple):
    """The inputs of the settings other than FILE. They do not change while the program runs."""

    file: str
    variables: Mapping[str, Given]
    flags: Mapping[str, Given]
    original: Original


def read_inputs(arguments: Sequence[str], environment: Mapping[str, str]) -> Inputs:
    """Return the flags and the variables. Raises SettingsError, and SystemExit after --help."""
    errors = ErrorCollector()
    flags, variables = flags_given(PROGRAM, arguments, errors), variables_given(PROGRAM, environment, errors)
    errors.raise_any()
    config = flags.pop("config", None) or variables.pop("config", None)
    if config is None:
        raise SettingsError("--config FILE is missing: FILE has the profiles and the sources")
    try:
        original = read_original(environment, Path(config.value).parent)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return Inputs(config.value, variables, flags, original)


def read_settings(inputs: Inputs, before: Settings | None = None) -> Settings:
    """Return the checked settings. ``before``: the settings in use, whose agents are used again. Raises SettingsError."""
    document = read_document(inputs.file)
    try:
        return _settings(document, inputs, before)
    except SettingsError as error:
        raise SettingsErrors([SettingsError(document.shown(one)) for one in errors_of(error)]) from None


def _settings(document: Document, inputs: Inputs, before: Settings | None) -> Settings:
    """Return the settings. Raises SettingsErrors with all errors that do not depend on each other."""
    errors = ErrorList()
    errors.errors += document.errors
    with errors.collected():
        _check_names(document)
    values, given = _values(document, inputs, errors)
    listen, status = Address("", 0), None
    with errors.collected():
        listen = _address("listen", values.pop("listen", DEFAULT_LISTEN), given)
    with errors.collected():
        text = values.pop("status_address", "")
        status = _address("status_address", text, given) if text else None
    server = ServerSettings()
    sources: SourceSettings | None = None
    with errors.collected():
        server = _server(document, errors)
    with errors.collected():
        sources = read_source_settings(document.content.get("sources"))
    entries: tuple[ProfileEntry, ...] = ()
    with errors.collected():
        entries = read_profiles(document, errors)
    known = before.agents if before is not None else None
    built = ProfileBuilder(document, inputs.original.args, sources, errors, known).build(entries)
    errors.raise_any()
    return Settings(
        document,
        listen if "listen" in inputs.flags else with_original(listen, inputs.original),
        status,
        server,
        sources or SourceSettings(),
        built.profiles,
        built.agents,
        built.refused,
        (*inputs.original.notes, *_unused(inputs.original, built.agents), *built.notes),
        **values,
    )


def _values(document: Document, inputs: Inputs, errors: ErrorList) -> tuple[dict[str, t.Any], dict[str, Given]]:
    """Return the values of the options by their names, and the variables and flags. A value that cannot be used is left out."""
    given = {**inputs.variables, **inputs.flags}
    values = {}
    for option in OPTIONS:
        in_file = document.content.get(option.name)
        with errors.collected():
            if option.name in given:
                values[option.name] = parse_given(option, given[option.name])
            elif in_file is not None:
                values[option.name] = _parsed(option, in_file)
    if inputs.original.log_level is not None and "log_level" not in inputs.flags:
        values["log_level"] = inputs.original.log_level
    return values, given


def _check_names(document: Document) -> None:
    known = (*(option.name for option in OPTIONS), *FILE_ONLY)
    unknown = [key for key in document.content if key not in known]
    if unknown:
        raise SettingsErrors([FileSettingError((key,), f" is not a setting{nearest(shown_key(key), known)}") for key in unknown])


def _parsed(option: Option, value: t.Any) -> t.Any:
    """Return the value of an option of FILE. Raises FileSettingError."""
    try:
        return option.kind.parse(value)
    except ValueError as error:
        raise FileSettingError((option.name,), f": {error}") from None


def _address(name: str, text: str, given: Mapping[str, Given]) -> Address:
    try:
        return parse_address(text, name)
    except ValueError as error:
        if name in given:
            raise SettingsError(f"{given[name].origin}: {error}") from None
        # The text of the error begins with the name.
        raise FileSettingError((name,), str(error).removeprefix(name)) from None


def _server(document: Document, errors: ErrorList) -> ServerSettings:
    value = document.content.get("server")
    section = Section({} if value is None else value, ("server",), ("tls", "max_body_bytes", "request_timeout_s"), errors)
    timeout_s = section.seconds("request_timeout_s", REQUEST_TIMEOUT_S, 0.1, LONGEST_REQUEST_S)
    most = section.integer("max_body_bytes", MAX_BODY_BYTES, LEAST_BODY_BYTES, MOST_BODY_BYTES)
    tls = section.section("tls", ("cert_file", "key_file", "client_ca_file"))
    if tls is None:
        return ServerSettings(None, most, timeout_s)
    for key in ("cert_file", "key_file"):
        if key not in tls:
            tls.refuse(key, "is missing")
    return ServerSettings(TlsFiles(tls.text("cert_file"), tls.text("key_file"), tls.text("client_ca_file")), most, timeout_s)


def _unused(original: Original, agents: Mapping[AgentKey, Agent]) -> list[str]:
    """Return sentences about variables of the original for agents that no profile has."""
    names = {name for _profile, name, _args in agents}
    if not original.args or names & set(original.args):
        return []
    return [f"variables for the agents {', '.join(sorted(original.args))} are ignored: no profile of FILE has one of these agents"]
