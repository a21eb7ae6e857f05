# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The default limits of a request. The settings are read without the server."""

from __future__ import annotations

MAX_BODY_BYTES = 32 * 1024 * 1024
"""About 3,000 whole nodes. With nodeCacheCapable a request with 5,000 nodes has 150 kB."""

REQUEST_TIMEOUT_S = 10.0
