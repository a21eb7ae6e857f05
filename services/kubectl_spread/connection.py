# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster and the namespace of a run, found as kubectl finds them: flags, then the kubeconfig, then the service account of the pod."""

from __future__ import annotations

import argparse
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ...plugins.module_utils.kube.client.config.connection_options import ConnectionOptions
from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ...plugins.module_utils.kube.client.config.kubeconfig_settings import context_of_kubeconfig, namespace_of_pod, settings_of_pod
from ...plugins.module_utils.kube.client.config.kubeconfig_source import DEFAULT_FILE, Source
from ...plugins.module_utils.kube.client.errors import ConfigurationError

DEFAULT_NAMESPACE = "default"


class ClusterTarget(t.NamedTuple):
    """The connection of a run, the namespace that counts without a flag, and the name of the cluster for people."""

    options: ConnectionOptions
    namespace: str
    cluster: str


def find_target(flags: argparse.Namespace, environment: Mapping[str, str]) -> ClusterTarget:
    """Return the target of the run. Raises ConfigurationError."""
    kubeconfig = flags.kubeconfig or environment.get("KUBECONFIG") or _default_file()
    values = {
        "kubeconfig": kubeconfig,
        "context": flags.context,
        "host": flags.server,
        "api_key": flags.token,
        "ca_cert": flags.certificate_authority,
        "impersonate_user": getattr(flags, "as"),
        "impersonate_groups": flags.as_group,
        "persist_config": True,
    }
    if flags.insecure_skip_tls_verify:
        values["validate_certs"] = False
    options = ConnectionOptions({name: value for name, value in values.items() if value is not None})
    if kubeconfig is None:
        return _without_kubeconfig(options, flags.server, environment)
    source = Source(kubeconfig, flags.context or "")
    try:
        context = context_of_kubeconfig(source)
    except ConnectionSettingsError as error:
        raise ConfigurationError(f"{source} cannot be used: {error}. Check --kubeconfig, KUBECONFIG and --context.") from None
    return ClusterTarget(options, context.namespace or DEFAULT_NAMESPACE, context.name)


def _default_file() -> str | None:
    """Return the path of the default kubeconfig, or None if it does not exist."""
    try:
        exists = Path(DEFAULT_FILE).expanduser().exists()
    except RuntimeError:  # the user has no home folder
        return None
    return DEFAULT_FILE if exists else None


def _without_kubeconfig(options: ConnectionOptions, server: str | None, environment: Mapping[str, str]) -> ClusterTarget:
    if server:
        return ClusterTarget(options, DEFAULT_NAMESPACE, server)
    if settings_of_pod(environment) is None:
        raise ConfigurationError(
            f"no cluster is given: give --kubeconfig=FILE, or set KUBECONFIG to the path of a kubeconfig; {DEFAULT_FILE} does not exist"
        )
    return ClusterTarget(options, namespace_of_pod() or DEFAULT_NAMESPACE, "in-cluster")
