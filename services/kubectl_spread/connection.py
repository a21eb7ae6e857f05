# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster and the namespace of a run, found as kubectl finds them: flags, then the kubeconfig, then the service account of the pod."""

from __future__ import annotations

import argparse
import os
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.config.authorization import basic, bearer, no_authorization
from ...plugins.module_utils.kube.client.config.connection_options import with_environment_proxy
from ...plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings, uses_tls
from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError, exists, is_file, path_of
from ...plugins.module_utils.kube.client.config.kubeconfig_settings import (
    UnsupportedLoginError,
    context_of_kubeconfig,
    is_in_pod,
    names_no_cluster,
    namespace_of_pod,
    settings_of_kubeconfig,
    settings_of_pod,
    settings_without_login,
)
from ...plugins.module_utils.kube.client.config.kubeconfig_source import DEFAULT_FILE, Source
from ...plugins.module_utils.kube.client.early_denials import EarlyDenials
from ...plugins.module_utils.kube.client.errors import ConfigurationError
from ...plugins.module_utils.kube.client.open_transport import open_transport_with
from .flags import USER_AGENT, UsageError

DEFAULT_NAMESPACE = "default"

FILE_FLAGS = {
    "certificate_authority": "ca",
    "client_certificate": "client_certificate",
    "client_key": "client_key",
}
"""The attributes of the flags that name files, and the settings that they replace."""

IMPERSONATION_HEADER = "Impersonate-"


@dataclass(frozen=True)
class KubectlOptions:
    """The flags for the connection. ``settings`` applies them to the kubeconfig as kubectl does (client-go ``client_config.go``).

    ``kubeconfig`` is None if there is no kubeconfig.
    """

    flags: argparse.Namespace
    kubeconfig: str | None

    @property
    def source(self) -> Source:
        """Return the source of the settings, for messages."""
        flags = self.flags
        host = "" if self.kubeconfig else flags.server or ""
        return Source(self.kubeconfig, flags.context or "", host, flags.cluster or "", flags.user or "")

    def settings(self) -> ConnectionSettings:
        """Return the settings of the connection. Raises ConnectionSettingsError."""
        flags, settings = self.flags, self._base()
        changes: dict[str, t.Any] = {
            field: _file(attribute, getattr(flags, attribute)) for attribute, field in FILE_FLAGS.items() if getattr(flags, attribute)
        }
        if flags.server:
            # The name in the kubeconfig is that of another server.
            changes |= {"server": flags.server.rstrip("/"), "tls_server_name": "", "cluster": ""}
        if flags.tls_server_name:
            changes["tls_server_name"] = flags.tls_server_name
        if flags.certificate_authority:
            changes["verify"] = True
        if flags.insecure_skip_tls_verify:
            changes |= {"verify": False, "ca": None}
        if self._own_login:
            changes["authorization"] = bearer(flags.token) if flags.token else basic(flags.username, flags.password)
        merged = replace(settings, **changes, headers=_impersonation(flags, settings.headers))
        if not uses_tls(merged.server):
            # Without TLS others can read a login. kubectl does not send it there either, not even that of a flag.
            merged = replace(merged, authorization=no_authorization, client_certificate=None, client_key=None)
        return with_environment_proxy(merged)

    @property
    def _own_login(self) -> bool:
        """Return whether the flags have a token or a password."""
        return bool(self.flags.token or self.flags.username)

    def _base(self) -> ConnectionSettings:
        """Return the settings that the flags then override."""
        server = self.flags.server or ""
        if self.kubeconfig is None:
            # Another server must not receive the token of the pod.
            return (None if server else settings_of_pod(os.environ)) or ConnectionSettings("")
        if self._own_login:
            return settings_without_login(self.source, server=server)
        try:
            return settings_of_kubeconfig(self.source, server=server)
        except UnsupportedLoginError:
            return self._with_login_by_client(settings_without_login(self.source, server=server))

    def _with_login_by_client(self, settings: ConnectionSettings) -> ConnectionSettings:
        """Return the settings with the login of the user's plugin or provider, which is only started for a server with TLS."""
        if not uses_tls(settings.server):
            return settings
        # Most kubeconfigs do not need it, and its import takes longer than a whole check of a small cluster.
        from ...plugins.module_utils.kube.client.config.kubernetes_client import settings_by_client

        login = settings_by_client(self.source, persist=True, needs_login=True)
        return replace(
            settings, authorization=login.authorization, client_certificate=login.client_certificate, client_key=login.client_key
        )


class ClusterTarget(t.NamedTuple):
    """The connection of a run, and the namespace that counts without a flag."""

    options: KubectlOptions
    namespace: str


def find_target(flags: argparse.Namespace, environment: Mapping[str, str]) -> ClusterTarget:
    """Return the target of the run. Raises ConfigurationError, and UsageError for flags that exclude or need each other."""
    _check_together(flags)
    kubeconfig = flags.kubeconfig or environment.get("KUBECONFIG") or _default_file()
    in_pod = is_in_pod(environment)
    if in_pod and not flags.kubeconfig and kubeconfig and not any(map(exists, Source(kubeconfig).files)):
        kubeconfig = None
    options = KubectlOptions(flags, kubeconfig)
    if kubeconfig is None:
        return _without_kubeconfig(options, environment)
    source = options.source
    try:
        context = context_of_kubeconfig(source)
        if in_pod and not (flags.context or flags.cluster or flags.user) and names_no_cluster(source):
            target = _without_kubeconfig(KubectlOptions(flags, None), environment)
            return target._replace(namespace=context.namespace or target.namespace)
    except ConnectionSettingsError as error:
        raise ConfigurationError(f"{source} cannot be used: {error}. Check --kubeconfig, KUBECONFIG and --context.") from None
    namespace = context.namespace or (namespace_of_pod() if in_pod else "")
    return ClusterTarget(options, namespace or DEFAULT_NAMESPACE)


def open_api(target: ClusterTarget, *, request_timeout_s: float | None = None) -> KubeApi:
    """Return the API of the target. With a limit for a request, from the caller or the flags, nothing is repeated. Raises KubeError."""
    limit_s = request_timeout_s or target.options.flags.request_timeout_s
    transport = open_transport_with(target.options, user_agent=USER_AGENT, request_timeout_s=limit_s)
    if limit_s is None:
        return KubeApi(transport, denials=EarlyDenials(time.monotonic))
    return KubeApi(transport, retry_for_s=0, answer_timeout_s=limit_s)


def _check_together(flags: argparse.Namespace) -> None:
    if flags.certificate_authority and flags.insecure_skip_tls_verify:
        raise UsageError("--certificate-authority and --insecure-skip-tls-verify exclude each other; leave one of them out")
    if flags.token and (flags.username or flags.password):
        raise UsageError("--token excludes --username and --password; leave one of the two logins out")
    if bool(flags.username) is not bool(flags.password):
        raise UsageError("--username and --password need each other; give both")
    unpaired = [entry for entry in flags.as_user_extra or () if "=" not in entry]
    if unpaired:
        raise UsageError(f"--as-user-extra: {unpaired[0]!r} is not KEY=VALUE")


def _default_file() -> str | None:
    """Return the path of the default kubeconfig, or None if it does not exist."""
    try:
        exists = Path(DEFAULT_FILE).expanduser().exists()
    except RuntimeError:  # the user has no home folder
        return None
    return DEFAULT_FILE if exists else None


def _without_kubeconfig(options: KubectlOptions, environment: Mapping[str, str]) -> ClusterTarget:
    flags = options.flags
    in_pod = is_in_pod(environment)
    entries = [f"--{name}" for name in ("context", "cluster", "user") if getattr(flags, name)]
    if entries or not (in_pod or flags.server):
        given = f"{entries[0]} names an entry of a kubeconfig, and there is none" if entries else "no cluster is given"
        raise ConfigurationError(f"{given}: give --kubeconfig=FILE, or set KUBECONFIG to its path; {DEFAULT_FILE} does not exist")
    if flags.server and uses_tls(flags.server) and not (flags.token or flags.username or flags.client_certificate):
        raise UsageError(
            "--server needs a login: --token, --username with --password, --client-certificate with --client-key, or a kubeconfig"
        )
    namespace = namespace_of_pod() if in_pod else ""
    return ClusterTarget(options, namespace or DEFAULT_NAMESPACE)


def _file(attribute: str, name: str) -> Path:
    path = path_of(name)
    if not is_file(path):
        raise ConnectionSettingsError(f"--{attribute.replace('_', '-')} names the file {path}, which does not exist")
    return path


def _impersonation(flags: argparse.Namespace, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the headers of the kubeconfig, of which a flag replaces those of its kind. Raises ConnectionSettingsError."""
    pairs = [entry.partition("=") for entry in flags.as_user_extra or ()]
    given = {
        "User": [("User", getattr(flags, "as"))],
        "Uid": [("Uid", flags.as_uid)],
        "Group": [("Group", group) for group in flags.as_group or ()],
        "Extra": [(f"Extra-{quote(key, safe='')}", value) for key, _equals, value in pairs],
    }
    own = {kind: [(f"{IMPERSONATION_HEADER}{name}", value) for name, value in found if value] for kind, found in given.items()}
    kept = [(name, value) for name, value in headers if not own[name.removeprefix(IMPERSONATION_HEADER).partition("-")[0]]]
    merged = (*kept, *(header for found in own.values() for header in found))
    if merged and f"{IMPERSONATION_HEADER}User" not in dict(merged):
        raise ConnectionSettingsError("--as-uid, --as-group and --as-user-extra need --as, or a kubeconfig whose user has as")
    return merged
