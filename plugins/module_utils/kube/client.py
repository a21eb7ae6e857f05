# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A connection without Ansible: the service account of a pod, or a kubeconfig."""

from __future__ import annotations

import typing as t

from .errors import ConfigurationError
from .kubeconfig import Source
from .transport import CONNECTION_FAILURES, Transport, explain_connection_failure


def connect(*, user_agent: str, kubeconfig: t.Optional[str] = None, context: t.Optional[str] = None) -> Transport:
    """A transport for ``kubeconfig`` (path), else for the pod's service account, else for the default kubeconfig.

    Raises ConfigurationError, UnreachableError or UnauthorizedError.
    """
    try:
        # Imported here so that the pure rooms load without the kubernetes client.
        from kubernetes import client, config, dynamic
    except ImportError as error:
        raise ConfigurationError(f"the Python library kubernetes is missing: {error}. Install it with pip.") from error
    configuration = client.Configuration()
    try:
        if kubeconfig is None and context is None and _in_cluster(config, configuration):
            pass
        else:
            config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=configuration)
        dynamic_client = dynamic.DynamicClient(client.ApiClient(configuration))
    except CONNECTION_FAILURES as error:
        source = Source(kubeconfig, context or "")
        raise explain_connection_failure(error, server=configuration.host, source=source) from error
    return Transport(dynamic_client, user_agent=user_agent)


def _in_cluster(config: t.Any, configuration: t.Any) -> bool:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        return False
    return True
