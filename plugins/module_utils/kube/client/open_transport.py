# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A transport from given options, tested by one request, for modules and services."""

from __future__ import annotations

import json
import typing as t

from .config.connection_options import ConnectionOptions, settings_of_options
from .config.connection_settings import ConnectionSettings
from .config.files import ConnectionSettingsError
from .config.kubeconfig_source import NO_CLUSTER
from .errors import ApiError, ConfigurationError, RequestTarget, TruncatedResponseError, UnauthorizedError
from .http.connection import URLLIB3_IMPORT_ERROR, Connection
from .http.transport import READ_TIMEOUT_S, Body, Transport

INSTALL = "Install it for this Python: python -m pip install --upgrade 'urllib3>=2'"


def open_transport(*, user_agent: str, kubeconfig: t.Optional[str] = None, context: t.Optional[str] = None) -> Transport:
    """Return a transport for ``kubeconfig`` (path), else for the pod's service account, else for the default kubeconfig.

    Raises ConfigurationError, UnreachableError and UnauthorizedError.
    """
    return open_transport_with(
        ConnectionOptions({"kubeconfig": kubeconfig, "context": context, "persist_config": True}), user_agent=user_agent
    )


def open_transport_with(options: ConnectionOptions, *, user_agent: str) -> Transport:
    """Return a transport for these options, after one request to check that the API server is reachable and knows the user.

    Raises ConfigurationError, UnreachableError and UnauthorizedError.
    """
    transport = make_transport(options, user_agent=user_agent)
    try:
        answer = transport.request(
            "get", "/version", verb="get", target=RequestTarget("the version of the API server"), timeout_s=READ_TIMEOUT_S
        )
        transport.server_version = _version_in(answer)
    except UnauthorizedError:
        raise
    except ApiError:
        pass  # For example 403: a role may be missing for this request only.
    return transport


def make_transport(options: ConnectionOptions, *, user_agent: str) -> Transport:
    """Return a transport for these options without a request, for a program that also starts while the API server is unreachable.

    Raises ConfigurationError.
    """
    if URLLIB3_IMPORT_ERROR is not None:
        raise ConfigurationError(f"the Python library urllib3, version 2 or newer, cannot be used: {URLLIB3_IMPORT_ERROR}. {INSTALL}")
    source = options.source

    def load() -> ConnectionSettings:
        return settings_of_options(options)

    try:
        return Transport(Connection(load), user_agent=user_agent)
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
