# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The registry of a program's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, disable_created_metrics


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process. It is a separate one, so that one process can have several."""
    # Without this each counter and histogram has a second series with its creation time. The function has no type annotations.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
