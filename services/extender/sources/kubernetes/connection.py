# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection to the API server that the settings name."""

from __future__ import annotations

import time

from .....plugins.module_utils.kube.client.api import KubeApi
from .....plugins.module_utils.kube.client.config.connection_options import ConnectionOptions
from .....plugins.module_utils.kube.client.early_denials import EarlyDenials
from .....plugins.module_utils.kube.client.open_transport import make_transport
from ..settings import KubernetesSettings

PAGE_SIZE = 250
"""Objects of one page of a list. A decoded pod needs about ten times the memory of the fields that are kept of it.

Small pages cost the API server CPU time (``kube/client/api.py``), but the extender reads a list only when it starts and when the version of
its watch has expired.
"""

USER_AGENT = "onprem.kube_scheduling/extender"


def open_kube_api(settings: KubernetesSettings) -> KubeApi:
    """Return the API without a request, so that the extender also starts while the API server is unreachable.

    Raises ConfigurationError.
    """
    options = ConnectionOptions({"kubeconfig": settings.kubeconfig, "context": settings.context, "persist_config": True})
    transport = make_transport(options, user_agent=USER_AGENT)
    return KubeApi(transport, page_size=PAGE_SIZE, denials=EarlyDenials(time.monotonic, patient=True))
