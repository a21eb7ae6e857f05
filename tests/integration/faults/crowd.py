# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are of no interest, but have to be read; they come first in a list, whose second page is by far the larger one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import PAGE_SIZE

from lab.cluster import Cluster

SMALL_BYTES = 500
LARGE = 250
LARGE_BYTES = 12_000

IN_FIRST_PAGE = 200_000
"""Bytes after which an answer is in its first page of pods: all that is read before is far less, the page far more."""
IN_SECOND_PAGE = 1_200_000
"""Bytes after which an answer is in its second page of pods."""


def load_crowd(cluster: Cluster) -> str:
    """Create finished pods, which use no capacity and cause no work. Return their namespace."""
    namespace = f"a-crowd-{secrets.token_hex(3)}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cluster.bulk_load(_pods(namespace))
    return namespace


def _pods(namespace: str) -> Iterator[dict[str, Any]]:
    for number in range(PAGE_SIZE + LARGE):
        # Random, because answers are compressed: of such digits a good half remains.
        filling = secrets.token_hex((LARGE_BYTES if number >= PAGE_SIZE else SMALL_BYTES) // 2)
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"crowd-{number:05}", "namespace": namespace, "annotations": {"filling": filling}},
            "spec": {"nodeName": "worker-1", "containers": [{"name": "main", "image": "example.invalid/app:1"}]},
            "status": {"phase": "Succeeded"},
        }
