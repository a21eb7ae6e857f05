# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Logins that only the kubernetes client supports: exec plugins and auth providers. Only this file imports the client.

Its import takes more CPU time than a whole check of a small cluster, so it is imported only if needed.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .connection_settings import ConnectionSettings, Pem
from .files import ConnectionSettingsError
from .kubeconfig_settings import context_of_kubeconfig, settings_without_login
from .kubeconfig_source import Source

MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OSError)
"""Exceptions of the kubernetes client for a malformed configuration of a plugin or a provider."""

ONLY_CONTEXTS = (
    "the user logs in by exec or auth-provider, which is only possible with the cluster and the user of a context: add a context with both "
    "to the kubeconfig, and give its name"
)

NO_LOGIN = (
    "the login by exec or auth-provider returned neither a token nor a certificate: the plugin is missing or has failed, or the provider "
    "is not known. Run kubectl with this kubeconfig, as the user that runs this program, to see the error"
)


def settings_by_client(source: Source, *, persist: bool, needs_login: bool = False) -> ConnectionSettings:
    """Return the settings of the kubeconfig with the login of the kubernetes client. Raises ConnectionSettingsError.

    Older versions of the client do not read all settings, such as the proxy. So only the login is taken from it.

    ``persist``: write a renewed token to the kubeconfig. If a plugin fails, the kubernetes client raises nothing, and the settings have no
    credentials. This is an error only with ``needs_login``. Their ``authorization`` raises ConnectionSettingsError if a token cannot be
    renewed.
    """
    if source.cluster or source.user:
        raise ConnectionSettingsError(ONLY_CONTEXTS)
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ConnectionSettingsError(f"this kubeconfig needs the Python library kubernetes, which cannot be imported: {error}") from None
    configuration = client.Configuration()
    # Of several current contexts the client would take the last.
    options: dict[str, t.Any] = {
        "context": context_of_kubeconfig(source).name or None,
        "client_configuration": configuration,
        "persist_config": persist,
    }
    with _without_secrets():
        if isinstance(source.kubeconfig, dict):
            config.load_kube_config_from_dict(config_dict=source.kubeconfig, **options)
        else:
            config.load_kube_config(config_file=":".join(map(str, source.files)), **options)
    settings = replace(
        settings_without_login(source),
        authorization=lambda: _authorization(configuration),
        client_certificate=_file(configuration.cert_file),
        client_key=_file(configuration.key_file),
    )
    if needs_login and not settings.has_login:
        raise ConnectionSettingsError(NO_LOGIN)
    return settings


@contextlib.contextmanager
def _without_secrets() -> Iterator[None]:
    """Replace the exceptions of a login by ConnectionSettingsError without their text.

    The kubernetes client writes the entry with the token into the text.
    """
    from kubernetes import client, config
    from oauthlib.oauth2 import OAuth2Error
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (config.ConfigException, client.OpenApiException, OAuth2Error, HTTPError, *MALFORMED) as error:
        name = type(error).__name__
        raise ConnectionSettingsError(f"the login by exec or auth-provider failed in the kubernetes client ({name})") from None


def _authorization(configuration: t.Any) -> str:
    """Return the current value of the header. The client renews a token that has expired."""
    with _without_secrets():
        values = [setting.get("value") for setting in configuration.auth_settings().values()]
    return next((str(value) for value in values if value), "")


def _file(name: t.Optional[str]) -> Pem:
    return Path(name) if name else None
