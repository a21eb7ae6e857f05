# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeconfig files with everything inside: the administrator's, and those of service accounts.

One file that can be copied, readable for its owner only, and that lives as long as the cluster.
"""

from __future__ import annotations

import base64
import http.client
import os
from pathlib import Path
from typing import Any

import yaml

from lab.api import ApiClient
from lab.errors import LabError
from lab.layout import Layout

TOKEN_SECONDS = 24 * 3600


def write_admin(layout: Layout, server: str) -> None:
    """Write the kubeconfig of the administrator (group system:masters: no API limits apply to it)."""
    user = {
        "client-certificate-data": _data(layout.pki / "admin.crt"),
        "client-key-data": _data(layout.pki / "admin.key"),
    }
    _write(layout.kubeconfig, layout, server, user)


def write_service_account(layout: Layout, server: str, api: ApiClient, *, name: str, namespace: str, cluster_role: str | None) -> Path:
    """Create a service account, bind it to a cluster role if one is given, and return its kubeconfig."""
    account = {"metadata": {"name": name}}
    _create(api, f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    if cluster_role:
        binding = {
            "metadata": {"name": f"lab:{namespace}:{name}:{cluster_role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        _create(api, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token = api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)["status"]["token"]
    path = layout.service_account_kubeconfigs / f"{namespace}-{name}.kubeconfig"
    path.parent.mkdir(exist_ok=True)
    _write(path, layout, server, {"token": token})
    return path


def _create(api: ApiClient, path: str, body: dict[str, Any]) -> None:
    response = api.request("POST", path, body)
    if response.status not in (http.client.CREATED, http.client.CONFLICT):
        raise LabError(f"POST {path} {body['metadata']['name']}: HTTP {response.status}: {response.message}")


def _write(path: Path, layout: Layout, server: str, user: dict[str, str]) -> None:
    name = f"lab-{layout.name}"
    authority = _data(layout.pki / "ca.crt")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": user}],
    }
    fresh = path.with_suffix(".tmp")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        yaml.safe_dump(document, stream, sort_keys=False)
    fresh.replace(path)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
