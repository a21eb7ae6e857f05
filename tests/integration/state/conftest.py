# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared cluster as the collection's own API client sees it, and a namespace for what is remembered."""

from __future__ import annotations

from tests.integration.kube.conftest import api, cluster, namespace, user

__all__ = ["api", "cluster", "namespace", "user"]
