# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The kind PodMonitor of the Prometheus operator, without the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.cluster import Cluster

TEXT, MAP = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
TLS = {"type": "object", "properties": {"insecureSkipVerify": {"type": "boolean"}}}
SECRET_KEY = {"type": "object", "required": ["key"], "properties": {"name": TEXT, "key": TEXT}}
AUTHORIZATION = {"type": "object", "properties": {"credentials": SECRET_KEY}}
ENDPOINT = {"type": "object", "properties": {"port": TEXT, "path": TEXT, "scheme": TEXT, "tlsConfig": TLS, "authorization": AUTHORIZATION}}
SELECTOR = {"type": "object", "properties": {"matchLabels": MAP}}
SPEC = {
    "type": "object",
    "required": ["selector"],
    "properties": {"selector": SELECTOR, "podMetricsEndpoints": {"type": "array", "items": ENDPOINT}},
}
POD_MONITORS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podmonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitor", "listKind": "PodMonitorList", "plural": "podmonitors", "singular": "podmonitor"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}}},
            }
        ],
    },
}
"""The kind PodMonitor with the fields of the Prometheus operator's API (monitoring.coreos.com/v1) that the roles use."""


@pytest.fixture
def prometheus_operator(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Make the kind PodMonitor, as an installation of the Prometheus operator does."""

    def make() -> None:
        cluster.apply(POD_MONITORS)
        cluster.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{POD_MONITORS['metadata']['name']}")

    yield make
    cluster.kubectl("delete", "customresourcedefinition", POD_MONITORS["metadata"]["name"], "--ignore-not-found")
