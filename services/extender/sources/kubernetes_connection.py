# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection to the API server that the settings name."""

from __future__ import annotations

import time

from ....plugins.module_utils.kube.client.api import KubeApi
from ....plugins.module_utils.kube.client.early_denials import EarlyDenials
from ....plugins.module_utils.kube.client.open_transport import open_transport
from .settings import KubernetesSettings

USER_AGENT = "onprem.kube_scheduling/extender"


def open_kube_api(settings: KubernetesSettings) -> KubeApi:
    """Return the API after one request. Raises ConfigurationError, UnreachableError and UnauthorizedError."""
    transport = open_transport(user_agent=USER_AGENT, kubeconfig=settings.kubeconfig, context=settings.context)
    return KubeApi(transport, denials=EarlyDenials(time.monotonic, patient=True))
