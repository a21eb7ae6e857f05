# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Metadata, label selectors and conditions: the types that all API groups share (k8s.io/api v1.36).

Structs have only the fields that are used here. The names are those of the API in snake case. Structs are frozen, so that several objects
can share one struct.
"""

from __future__ import annotations

import typing as t

from ..codec import Struct

Labels = dict[str, str]
ResourceList = dict[str, str]
IntOrString = t.Union[int, str]


class ApiStruct(Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """Base of every API type.

    Field names are camelCase in JSON. Structs hold no reference cycles, so the garbage collector does not track them.
    """


WORKLOAD_GROUPS = ("apps", "extensions")
"""The API groups of Deployments, ReplicaSets and StatefulSets. References that were written before Kubernetes 1.9 have ``extensions``."""


def group_of(api_version: str) -> str:
    """Return the API group of a group and version. It is empty for the core group."""
    return api_version.rpartition("/")[0]


class OwnerReference(ApiStruct, frozen=True):
    """An owner of an object. At most one owner is the controller.

    A kind alone names no type: other API groups have kinds of the same name, for example StatefulSet.
    """

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: t.Optional[bool] = None

    @property
    def group(self) -> str:
        """Return the API group of the kind. It is empty for the core group."""
        return group_of(self.api_version)


class ManagedFieldsEntry(ApiStruct, frozen=True):
    """One writer of an object. Only the subresource that it wrote to is used here."""

    subresource: str = ""


class ObjectMeta(ApiStruct, frozen=True):
    """The fields of metadata that are used here. Times stay RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: t.Optional[str] = None
    labels: t.Optional[Labels] = None
    annotations: t.Optional[Labels] = None
    owner_references: t.Optional[tuple[OwnerReference, ...]] = None
    deletion_timestamp: t.Optional[str] = None
    deletion_grace_period_seconds: t.Optional[int] = None
    finalizers: t.Optional[tuple[str, ...]] = None
    managed_fields: t.Optional[tuple[ManagedFieldsEntry, ...]] = None

    @property
    def full_name(self) -> str:
        """Return namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner whose ``controller`` is true, or None."""
        return controller_of(self.owner_references)


def controller_of(owners: t.Optional[t.Iterable[OwnerReference]]) -> OwnerReference | None:
    """Return the owner whose ``controller`` is true, or None."""
    for owner in owners or ():
        if owner.controller:
            return owner
    return None


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """One ``matchExpressions`` entry of a label selector."""

    key: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class LabelSelector(ApiStruct, frozen=True):
    """A label selector. An absent selector selects nothing, an empty one selects everything."""

    match_labels: t.Optional[Labels] = None
    match_expressions: t.Optional[tuple[LabelSelectorRequirement, ...]] = None


class Condition(ApiStruct, frozen=True):
    """A condition of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Named(ApiStruct, frozen=True):
    """An object that is used by its name only (scheduling gates, resource claims)."""

    name: str = ""
