# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection to the API server that the settings name."""

from __future__ import annotations

import time

from ....plugins.module_utils.kube.client.api import KubeApi
from ....plugins.module_utils.kube.client.config.connection_options import ConnectionOptions
from ....plugins.module_utils.kube.client.early_denials import EarlyDenials
from ....plugins.module_utils.kube.client.open_transport import make_transport
from .settings import KubernetesSettings

USER_AGENT = "onprem.kube_scheduling/extender"


def open_kube_api(settings: KubernetesSettings) -> KubeApi:
    """Return the API without a request, so that the extender also starts while the API server is unreachable.

    Raises ConfigurationError.
    """
    options = ConnectionOptions({"kubeconfig": settings.kubeconfig, "context": settings.context, "persist_config": True})
    return KubeApi(make_transport(options, user_agent=USER_AGENT), denials=EarlyDenials(time.monotonic, patient=True))
