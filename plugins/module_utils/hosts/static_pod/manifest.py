# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The manifest of a static pod. It is JSON, which is YAML too, so that the host reads it with Python's own library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

HEADER = "# Ansible writes this file with the collection onprem.kube_scheduling. The next run replaces it.\n"

MARK = "STATIC_POD_FILES"
"""The environment variable of each container with the hash of the manifest and of the files that the programs read."""

ANNOTATION = "kube-scheduling.onprem/files-hash"


def read_pod(text: str) -> dict[str, Any]:
    """Return the pod of a manifest. That of another program is empty."""
    try:
        found = json.loads(text.removeprefix(HEADER))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def with_earlier(pod: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with the containers of an earlier one that it does not have. A name belongs to one port."""
    own = _containers(pod)
    names = [container["name"] for container in own]
    return _with_containers(pod, own + [container for container in _containers(earlier) if container["name"] not in names])


def marked(pod: Mapping[str, Any], files: Mapping[str, str]) -> tuple[str, str]:
    """Return the manifest, and the hash that its containers have. A change of a file changes the hash, so the kubelet replaces the pod."""
    content = json.dumps([_with_mark(pod, ""), files], sort_keys=True)
    value = hashlib.sha256(content.encode()).hexdigest()[:12]
    return HEADER + json.dumps(_with_mark(pod, value), indent=2, sort_keys=True, ensure_ascii=False) + "\n", value


def ports(pod: Mapping[str, Any]) -> list[int]:
    """Return the ports at which the containers say that they are ready."""
    return [port["containerPort"] for container in _containers(pod) for port in container.get("ports", [])]


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(pod.get("spec", {}).get("containers", []))


def _with_containers(pod: Mapping[str, Any], containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def _with_mark(pod: Mapping[str, Any], value: str) -> dict[str, Any]:
    containers = [
        {**container, "env": [*(one for one in container.get("env", []) if one["name"] != MARK), {"name": MARK, "value": value}]}
        for container in _containers(pod)
    ]
    metadata = {**pod["metadata"], "annotations": {**pod["metadata"].get("annotations", {}), ANNOTATION: value}}
    return _with_containers({**pod, "metadata": metadata}, containers)
