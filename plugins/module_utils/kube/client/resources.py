# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The API path of each resource, and its struct."""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from ...model.api.coordination import ConfigMap, Event, Lease
from ...model.api.device import DeviceClass
from ...model.api.namespace import LimitRange, Namespace, ResourceQuota
from ...model.api.node import Node, NodeWithImages
from ...model.api.pod import Pod
from ...model.api.policy import PodDisruptionBudget
from ...model.api.service import Service
from ...model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from ...model.api.workload import HorizontalPodAutoscaler, Job, Workload
from ...model.codec import DecodeError, ListMeta, UndecodedItem, decode_items, decode_object, force_setattr, list_meta, list_start
from ...model.undecodable import as_undecodable, placeholder_pod, read_undecodable, undecodable_of
from ...model.values.quantity import QuantityError
from ...model.values.quantity_check import check_quantities
from .errors import RequestTarget, ResponseDecodeError, UndecodableError


class Resource(t.NamedTuple):
    """A resource of the API: ``prefix`` is its group's path, ``plural`` its name in paths and roles.

    ``namespaced`` is false for resources of the whole cluster. ``part``: the subresource that is read and written instead of the object.
    ``checked_by_store``: there are many objects, so the store that keeps them checks the quantities of each different part once.
    """

    prefix: str
    plural: str
    kind: str
    type: type[t.Any]
    namespaced: bool = True
    part: str = ""
    checked_by_store: bool = False

    @property
    def role_name(self) -> str:
        """Return the name of the resource in roles."""
        return f"{self.plural}/{self.part}" if self.part else self.plural

    def decode(self, data: bytes) -> t.Any:
        """Return one object of this resource as its struct. Raises UndecodableError, which names the object."""
        found = self.read(data)
        undecodable = undecodable_of(found)
        if undecodable is not None:
            raise UndecodableError(undecodable)
        return found

    def read(self, data: bytes) -> t.Any:
        """Return one object of this resource as its struct. If it cannot be decoded, return an ``Undecodable`` or an ``UndecodablePod``."""
        try:
            return self._known(decode_object(self.type, data), data)
        except DecodeError as error:
            return self._undecodable(data, error)

    def decode_written(self, data: bytes) -> t.Any:
        """Return the object in the answer to a write. If it cannot be decoded, the struct has only the object's metadata.

        The server has done the write, so an error would be wrong.
        """
        found = self.read(data)
        undecodable = undecodable_of(found)
        return found if undecodable is None else self._named(self.type(metadata=undecodable.metadata))

    def decode_items(self, data: bytes) -> list[t.Any]:
        """Return the objects of one page of a list, each as ``read`` returns it. Raises ResponseDecodeError if it is not a list."""
        try:
            found = decode_items(self.type, data)
        except DecodeError as error:
            raise ResponseDecodeError(f"{self.plural}: {error}") from error
        return [self._undecodable(*item) if isinstance(item, UndecodedItem) else self._known(item, b"{}") for item in found]

    def list_meta(self, data: bytes) -> ListMeta:
        """Return the continue token of a page and its resource version. Raises ResponseDecodeError."""
        try:
            return list_meta(data)
        except DecodeError as error:
            raise ResponseDecodeError(f"{self.plural}: {error}") from error

    def list_start(self, data: bytes) -> t.Optional[ListMeta]:
        """Return ``list_meta`` from the first bytes of a page, or None if they do not contain it. Raises ResponseDecodeError."""
        try:
            return list_start(data)
        except DecodeError as error:
            raise ResponseDecodeError(f"{self.plural}: {error}") from error

    def _known(self, item: t.Any, data: bytes) -> t.Any:
        """Return the object, or an ``Undecodable`` if it has neither uid nor name or a quantity that cannot be parsed.

        Without uid and name nothing can refer to the object.
        """
        if not (item.metadata.uid or item.metadata.name):
            return self._undecodable(data, "it has neither uid nor name")
        if not self.checked_by_store:
            try:
                check_quantities(item)
            except QuantityError as error:
                return as_undecodable(self.kind, item, str(error))
        return self._named(item)

    def _named(self, item: t.Any) -> t.Any:
        """Return the object with its kind, which the items of a list do not have."""
        if self.type is Workload:
            force_setattr(item, "kind", self.kind)
        return item

    def _undecodable(self, data: bytes, error: t.Union[DecodeError, str]) -> t.Any:
        # Several kinds share one struct, so the message names the kind.
        message = str(error).replace(f" as {self.type.__name__}:", f" as {self.kind}:", 1)
        found = read_undecodable(self.kind, data, message)
        return placeholder_pod(found) if self.type is Pod else found

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of the collection, of the collection in one namespace, or of an object."""
        parts = [self.prefix]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
            if self.part:
                parts.append(self.part)
        return "/".join(parts)

    def target(self, namespace: str, name: str) -> RequestTarget:
        """Return an object in the words of an error."""
        path = f"{namespace}/{name}" if self.namespaced else name
        part = f"the {self.part} of " if self.part else ""
        return RequestTarget(f"{part}{self.kind} {path}", self.scope(namespace))

    def collection_target(self, namespace: str = "") -> RequestTarget:
        """Return the collection, or the collection in one namespace, in the words of an error."""
        scope = self.scope(namespace)
        return RequestTarget(scope, scope, "leave the namespace out" if namespace else "")

    def scope(self, namespace: str) -> str:
        """Return the resource and the namespaces in which a role has to grant a verb."""
        if not self.namespaced:
            return self.role_name
        return f"{self.role_name} in namespace {namespace}" if namespace else f"{self.role_name} in all namespaces"


NODES = Resource("/api/v1", "nodes", "Node", Node, namespaced=False, checked_by_store=True)
NODES_WITH_IMAGES = NODES._replace(type=NodeWithImages)
PODS = Resource("/api/v1", "pods", "Pod", Pod, checked_by_store=True)
POD_STATUS = PODS._replace(part="status")
NAMESPACES = Resource("/api/v1", "namespaces", "Namespace", Namespace, namespaced=False)
QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota", ResourceQuota)
CLAIMS = Resource("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim)
SERVICES = Resource("/api/v1", "services", "Service", Service)
LIMIT_RANGES = Resource("/api/v1", "limitranges", "LimitRange", LimitRange)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments", "Deployment", Workload)
STATEFUL_SETS = Resource("/apis/apps/v1", "statefulsets", "StatefulSet", Workload)
REPLICA_SETS = Resource("/apis/apps/v1", "replicasets", "ReplicaSet", Workload)
BUDGETS = Resource("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget)
AUTOSCALERS = Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", HorizontalPodAutoscaler)
VOLUMES = Resource("/api/v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", StorageClass, namespaced=False)
CSI_NODES = Resource("/apis/storage.k8s.io/v1", "csinodes", "CSINode", CSINode, namespaced=False)
CSI_DRIVERS = Resource("/apis/storage.k8s.io/v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False)
CSI_CAPACITIES = Resource("/apis/storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity)
VOLUME_ATTACHMENTS = Resource("/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", VolumeAttachment, namespaced=False)
DEVICE_CLASSES = Resource("/apis/resource.k8s.io/v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False)
EVENTS = Resource("/api/v1", "events", "Event", Event)
CONFIG_MAPS = Resource("/api/v1", "configmaps", "ConfigMap", ConfigMap)
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases", "Lease", Lease)
JOBS = Resource("/apis/batch/v1", "jobs", "Job", Job)

WORKLOADS: dict[str, Resource] = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS}
