# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Connection settings from the options of kubernetes.core and its K8S_AUTH_* variables."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.request import getproxies

from .authorization import basic, bearer
from .connection_settings import ConnectionSettings, Pem
from .files import ConnectionSettingsError, is_file, path_of
from .kubeconfig_settings import UnsupportedLoginError, current_contexts, settings_of_kubeconfig, settings_of_pod
from .kubeconfig_source import Source

NAMES = {
    "kubeconfig": "kubeconfig",
    "context": "context",
    "host": "host",
    "api_key": "api_key",
    "username": "username",
    "password": "password",
    "validate_certs": "verify_ssl",
    "ca_cert": "ssl_ca_cert",
    "client_cert": "cert_file",
    "client_key": "key_file",
    "proxy": "proxy",
    "no_proxy": "no_proxy",
    "persist_config": "persist_config",
    "impersonate_user": "impersonate_user",
    "impersonate_groups": "impersonate_groups",
}
"""The options, and the second name of each in a variable."""

PROXY_HEADERS = ("proxy_basic_auth", "basic_auth", "user_agent")
NO_CREDENTIALS = "the option host is given without credentials: give api_key, or username and password, or client_cert and client_key"
TRUTHS = ("validate_certs", "persist_config")
FALSE = ("0", "false", "no")
VARIABLE = "K8S_AUTH_"
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""The hosts that are reached without the proxy of the environment, in the form of NO_PROXY."""


@dataclass(frozen=True)
class ConnectionOptions:
    """The options that were given. Options of the module have precedence over the environment. Absent options are missing."""

    values: Mapping[str, t.Any]

    def text(self, name: str) -> str:
        """Return the text of an option. It is empty if the option is not given."""
        return str(self.values.get(name) or "")

    @property
    def source(self) -> Source:
        """Return the source of the settings, for messages."""
        return Source(self.values.get("kubeconfig"), self.text("context"), self.text("host"))

    def settings(self) -> ConnectionSettings:
        """Return the settings of a connection. Raises ConnectionSettingsError."""
        return with_environment_proxy(_completed(_base(self), self))


def given_options(params: Mapping[str, t.Any], environment: Mapping[str, str]) -> ConnectionOptions:
    """Return the options of a module, completed by the environment variables as in kubernetes.core."""
    values = {name: params[name] for name in NAMES if params.get(name) is not None}
    for name, second in NAMES.items():
        text = environment.get(f"{VARIABLE}{name.upper()}") or environment.get(f"{VARIABLE}{second.upper()}")
        if name not in values and text is not None:
            values[name] = text.lower() not in FALSE if name in TRUTHS else text
    if isinstance(values.get("impersonate_groups"), str):
        values["impersonate_groups"] = [group for group in values["impersonate_groups"].split(",") if group]
    headers = params.get("proxy_headers") or {
        name: environment[f"{VARIABLE}PROXY_HEADERS_{name.upper()}"]
        for name in PROXY_HEADERS
        if f"{VARIABLE}PROXY_HEADERS_{name.upper()}" in environment
    }
    return ConnectionOptions({**values, "proxy_headers": headers})


def with_environment_proxy(settings: ConnectionSettings) -> ConnectionSettings:
    """Return the settings with the proxy of the environment if they have none.

    As in the kubernetes client, NO_PROXY also applies to a proxy from an option or a kubeconfig. As in kubectl, the proxy of the
    environment is not used for this machine (Go: ``http/httpproxy``).
    """
    proxies = getproxies()
    no_proxy = settings.no_proxy or proxies.get("no") or ""
    if settings.proxy:
        return replace(settings, no_proxy=no_proxy)
    proxy = proxies.get(settings.server.partition(":")[0]) or proxies.get("all") or ""
    return replace(settings, proxy=proxy, no_proxy=f"{no_proxy},{LOOPBACK}")


def _base(options: ConnectionOptions) -> ConnectionSettings:
    """Return the settings that options other than ``kubeconfig`` and ``context`` then override."""
    if options.text("host") and _has_credentials(options):
        return ConnectionSettings("")
    if not options.text("context") and not options.values.get("kubeconfig"):
        of_pod = settings_of_pod(os.environ)
        if of_pod is not None:
            return of_pod
    try:
        _check_current_context(options)
        return settings_of_kubeconfig(options.source)
    except UnsupportedLoginError:
        from .kubernetes_client import settings_by_client  # imported only if needed, so that it is compiled only then

        persist = bool(options.values.get("persist_config"))
        return settings_by_client(options.source, persist=persist, needs_login=not _has_credentials(options))
    except ConnectionSettingsError:
        if options.text("host") and not options.values.get("kubeconfig"):
            raise ConnectionSettingsError(NO_CREDENTIALS) from None
        raise


def _check_current_context(options: ConnectionOptions) -> None:
    """Raise ConnectionSettingsError if the kubeconfigs name different current contexts, and no context is given.

    Then kubectl would use another cluster than the modules of kubernetes.core in the same playbook.
    """
    found = () if options.text("context") else current_contexts(options.source)
    if len(found) > 1:
        raise ConnectionSettingsError(
            f"its files have the current contexts {' and '.join(found)}, of which kubectl takes the first and kubernetes.core the last: "
            "give the option context"
        )


def _has_credentials(options: ConnectionOptions) -> bool:
    pairs = (("api_key",), ("username", "password"), ("client_cert", "client_key"))
    return any(all(options.text(name) for name in pair) for pair in pairs)


def _completed(settings: ConnectionSettings, options: ConnectionOptions) -> ConnectionSettings:
    changes: dict[str, t.Any] = {}
    if options.text("host"):
        changes |= {"server": options.text("host").rstrip("/"), "cluster": ""}
    if options.text("api_key"):
        changes["authorization"] = bearer(options.text("api_key"))
    elif options.text("username") and options.text("password"):
        changes["authorization"] = basic(options.text("username"), options.text("password"))
    for option, field in (("ca_cert", "ca"), ("client_cert", "client_certificate"), ("client_key", "client_key")):
        if options.text(option):
            changes[field] = _file(option, options.text(option))
    if "validate_certs" in options.values:
        changes["verify"] = bool(options.values["validate_certs"])
    for option in ("proxy", "no_proxy"):
        if options.text(option):
            changes[option] = options.text(option)
    if options.values.get("proxy_headers"):
        changes["proxy_headers"] = dict(options.values["proxy_headers"])
    acting_as = [("Impersonate-User", options.text("impersonate_user"))]
    acting_as += [("Impersonate-Group", str(group)) for group in options.values.get("impersonate_groups") or ()]
    given = tuple((name, value) for name, value in acting_as if value)
    return replace(settings, **changes, headers=given or settings.headers)


def _file(option: str, name: str) -> Pem:
    path = path_of(name)
    if not is_file(path):
        raise ConnectionSettingsError(f"{option} names the file {path}, which does not exist")
    return path
