# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server-side apply without a kubectl process: a test run applies hundreds of objects."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import yaml

from lab.api import USER_AGENT, ApiClient
from lab.errors import LabError

Manifest = dict[str, Any]


def apply(api: ApiClient, manifest: Manifest | list[Manifest] | str) -> None:
    """Apply one object, several, or YAML text, in their order; fields that others own are taken over.

    Raises LabError naming the object that the API server refuses; those before it are applied.
    """
    paths = _Paths(api)
    for each in _objects(manifest):
        response = api.request(
            "PATCH",
            f"{paths.of(each)}?fieldManager={USER_AGENT}&force=true",
            each,  # JSON is YAML as well
            content_type="application/apply-patch+yaml",
        )
        if response.status >= http.client.BAD_REQUEST:
            raise LabError(f"{each['kind']} {each['metadata']['name']} was not applied: HTTP {response.status}: {response.message}")


def _objects(manifest: Manifest | list[Manifest] | str) -> Iterator[Manifest]:
    if isinstance(manifest, str):
        yield from (document for document in yaml.safe_load_all(manifest) if document)
    elif isinstance(manifest, list):
        yield from manifest
    else:
        yield manifest


class _Paths:
    """API paths of objects, by what the API server says of their kinds."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def of(self, manifest: Manifest) -> str:
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        if (version, kind) not in self._known:
            self._discover(version)
        resource = self._known.get((version, kind))
        if resource is None:
            raise LabError(f"{kind} {metadata['name']}: the API server does not serve this kind in {version}")
        parts = [_root(version)]
        if resource["namespaced"]:
            parts += ["namespaces", metadata.get("namespace", "default")]
        return "/".join([*parts, resource["name"], quote(metadata["name"])])

    def _discover(self, version: str) -> None:
        found = self._api.find(_root(version)) or {"resources": []}
        # A name with a slash is a subresource; it may have the kind of another resource.
        self._known |= {(version, entry["kind"]): entry for entry in found["resources"] if "/" not in entry["name"]}


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
