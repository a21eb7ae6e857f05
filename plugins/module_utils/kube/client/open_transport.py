# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A transport from given options, tested by one request, for modules and services."""

from __future__ import annotations

import json
import typing as t

from .config.connection_options import ConnectionOptions
from .config.connection_settings import ConnectionSettings
from .config.files import ConnectionSettingsError
from .config.kubeconfig_source import NO_CLUSTER, Source
from .errors import ApiError, ConfigurationError, RequestTarget, TruncatedResponseError, UnauthorizedError
from .http.connection import URLLIB3_IMPORT_ERROR, Connection
from .http.transport import READ_TIMEOUT_S, Body, Transport

INSTALL = "Install it for this Python: python -m pip install --upgrade 'urllib3>=2'"


class SettingsSource(t.Protocol):
    """The options from which the settings of a connection are made."""

    @property
    def source(self) -> Source:
        """Return the source of the settings, for messages."""

    def settings(self) -> ConnectionSettings:
        """Return the settings of a connection. Raises ConnectionSettingsError."""


def open_transport(*, user_agent: str, kubeconfig: t.Optional[str] = None, context: t.Optional[str] = None) -> Transport:
    """Return a transport for ``kubeconfig`` (path), else for the pod's service account, else for the default kubeconfig.

    Raises ConfigurationError, UnreachableError and UnauthorizedError.
    """
    return open_transport_with(
        ConnectionOptions({"kubeconfig": kubeconfig, "context": context, "persist_config": True}), user_agent=user_agent
    )


def open_transport_with(options: SettingsSource, *, user_agent: str, request_timeout_s: t.Optional[float] = None) -> Transport:
    """Return a transport for these options, after one request to check that the API server is reachable and knows the user.

    ``request_timeout_s`` limits each request with its whole answer. Raises ConfigurationError, UnreachableError and UnauthorizedError.
    """
    transport = make_transport(options, user_agent=user_agent, request_timeout_s=request_timeout_s)
    read_version(transport)
    return transport


def read_version(transport: Transport) -> None:
    """Set the version of the API server. Raises ConfigurationError, UnreachableError and UnauthorizedError."""
    try:
        answer = transport.request(
            "get", "/version", verb="get", target=RequestTarget("the version of the API server"), timeout_s=READ_TIMEOUT_S
        )
        transport.server_version = _version_in(answer)
    except UnauthorizedError:
        raise
    except ApiError:
        pass  # For example 403: a role may be missing for this request only.


def make_transport(options: SettingsSource, *, user_agent: str, request_timeout_s: t.Optional[float] = None) -> Transport:
    """Return a transport for these options without a request, for a program that also starts while the API server is unreachable.

    ``request_timeout_s`` limits each request with its whole answer. Raises ConfigurationError.
    """
    if URLLIB3_IMPORT_ERROR is not None:
        raise ConfigurationError(f"the Python library urllib3, version 2 or newer, cannot be used: {URLLIB3_IMPORT_ERROR}. {INSTALL}")
    source = options.source
    try:
        return Transport(Connection(options.settings), user_agent=user_agent, request_timeout_s=request_timeout_s)
    except ConnectionSettingsError as error:
        if source.nothing_given:
            raise ConfigurationError(NO_CLUSTER) from None
        text = f"cannot connect to Kubernetes with {source}: {error}. Check the file, its context and the credentials."
        raise ConfigurationError(text) from None


def _version_in(answer: Body) -> str:
    """Return the version in an answer. It is empty if there is none, as in the answer of a proxy."""
    try:
        found = json.loads(answer.unpack())
    except (TruncatedResponseError, ValueError, RecursionError):
        return ""
    version = found.get("gitVersion") if isinstance(found, dict) else None
    return version if isinstance(version, str) else ""
