# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The kinds that an API server serves, also those of custom resources and of aggregated APIs, and their objects in one namespace.

Source of the paths and fields: k8s.io/apimachinery ``pkg/apis/meta/v1/types.go``, APIGroupList and APIResourceList.
"""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, KubeError, is_permission_error
from ...kube.client.resources import Resource
from ...model.api.meta import ApiStruct, ObjectMeta
from ...model.codec import field
from ...model.undecodable import Undecodable

METHOD_NOT_ALLOWED = 405
GRANT = " Grant the verb"
"""Begins the remedy of a denial. Here it would be repeated for each kind, and name the roles of the programs."""


class AnyObject(ApiStruct, frozen=True):
    """An object of any kind."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class ServedResource(ApiStruct, frozen=True):
    """A resource, or a subresource, in the discovery of one version of a group."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: t.Optional[tuple[str, ...]] = None


class ServedResources(ApiStruct, frozen=True):
    """The discovery of one version of a group."""

    resources: t.Optional[tuple[ServedResource, ...]] = None


class GroupVersion(ApiStruct, frozen=True):
    """One version of a group, such as ``apps/v1``."""

    group_version: str = ""


class ServedGroup(ApiStruct, frozen=True):
    """A group, and the version that the server prefers."""

    name: str = ""
    versions: t.Optional[tuple[GroupVersion, ...]] = None
    preferred_version: GroupVersion = field(default_factory=GroupVersion)


class ServedGroups(ApiStruct, frozen=True):
    """The groups of the server, without the core group."""

    groups: t.Optional[tuple[ServedGroup, ...]] = None


class NamedObject(t.NamedTuple):
    """An object with its kind. ``labels`` are empty if the object cannot be decoded."""

    kind: str
    name: str
    labels: dict[str, str]


class UnreadableKind(t.NamedTuple):
    """A kind that cannot be listed, or a version of a group (such as ``metrics.k8s.io/v1beta1``) whose kinds are not known."""

    kind: str
    message: str


class NamespaceObjects(t.NamedTuple):
    """All objects of a namespace that could be read, and what could not be read."""

    objects: list[NamedObject]
    unreadable: list[UnreadableKind]


def read_namespace_objects(api: KubeApi, namespace: str, *, exclude_kinds: t.Collection[str] = ()) -> NamespaceObjects:
    """Return the objects of every kind that can be listed, sorted by kind and name.

    An aggregated API that does not answer is in ``unreadable``. Raises UnauthorizedError, and KubeError if the groups cannot be read.
    """
    found = NamespaceObjects([], [])
    for resource in _namespaced_resources(api, found.unreadable):
        if resource.kind not in exclude_kinds:
            _read_objects(api, resource, namespace, found)
    found.objects.sort(key=lambda item: (item.kind, item.name))
    return found


def _read_objects(api: KubeApi, resource: Resource, namespace: str, found: NamespaceObjects) -> None:
    undecodable: list[Undecodable] = []
    try:
        items = api.list_all(resource, namespace=namespace, each=lambda item: item.metadata, undecodable=undecodable)
    except KubeError as error:
        if not (isinstance(error, ApiError) and error.status == METHOD_NOT_ALLOWED):
            found.unreadable.append(UnreadableKind(resource.kind, str(error).partition(GRANT)[0]))
        return
    found.objects.extend(NamedObject(resource.kind, item.name, dict(item.labels or {})) for item in items)
    found.objects.extend(NamedObject(resource.kind, item.metadata.name or item.metadata.uid, {}) for item in undecodable)


def _namespaced_resources(api: KubeApi, unreadable: list[UnreadableKind]) -> list[Resource]:
    """Return the resources of namespaces that can be listed. All versions of a kind have the same objects, so each kind is there once."""
    found: dict[tuple[str, str], Resource] = {}
    groups = api.get_path("/apis", ServedGroups).groups or ()
    for group in (ServedGroup(versions=(GroupVersion("v1"),)), *groups):
        versions = [group.preferred_version, *(group.versions or ())]
        for version in dict.fromkeys(entry.group_version for entry in versions if entry.group_version):
            prefix = f"/apis/{version}" if group.name else f"/api/{version}"
            try:
                resources = api.get_path(prefix, ServedResources).resources or ()
            except KubeError as error:
                if is_permission_error(error):
                    raise
                unreadable.append(UnreadableKind(version, str(error)))
                continue
            for served in resources:
                if served.namespaced and "list" in (served.verbs or ()) and "/" not in served.name:
                    found.setdefault((group.name, served.kind), Resource(prefix, served.name, served.kind, AnyObject))
    return list(found.values())
