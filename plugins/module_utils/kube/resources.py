# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Where each resource lies in the API, and the struct that it is read into."""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from ..model import objects, records, storage
from ..model.amounts import check_amounts
from ..model.quantity import QuantityError
from ..model.undecodable import as_undecodable, read_undecodable, stand_in, undecodable_of
from ..model.wire import ListMeta, Misfit, WireError, decode_items, decode_object, force_setattr, list_meta, list_start
from .errors import UndecodableError, UnexpectedAnswerError

CHECKED_WHEN_SHARED = (objects.Pod, objects.Node)
"""There are many of them: ``model/sharing.py`` checks the quantities of each different part once."""


class Resource(t.NamedTuple):
    """A resource of the API: ``prefix`` is its group's path, ``plural`` its name in paths and roles.

    ``namespaced`` is false for what belongs to the whole cluster. ``part``: only this subresource of its objects is read and written.
    """

    prefix: str
    plural: str
    kind: str
    type: type[t.Any]
    namespaced: bool = True
    part: str = ""

    @property
    def role_name(self) -> str:
        """What roles call it."""
        return f"{self.plural}/{self.part}" if self.part else self.plural

    def decode(self, data: bytes) -> t.Any:
        """One object of this resource as its struct; raises UndecodableError, which names the object."""
        found = self.read(data)
        undecodable = undecodable_of(found)
        if undecodable is not None:
            raise UndecodableError(undecodable)
        return found

    def read(self, data: bytes) -> t.Any:
        """One object of this resource as its struct; an ``Undecodable`` (a pod: ``UndecodablePod``) where it cannot be decoded."""
        try:
            return self._known(decode_object(self.type, data), data)
        except WireError as error:
            return self._undecodable(data, error)

    def decode_written(self, data: bytes) -> t.Any:
        """The answer to a write: the object as its struct, with nothing but its metadata where the rest cannot be decoded.

        The server has done what it was asked for. An error would say that it has not.
        """
        found = self.read(data)
        undecodable = undecodable_of(found)
        return found if undecodable is None else self._named(self.type(metadata=undecodable.metadata))

    def decode_items(self, data: bytes) -> list[t.Any]:
        """The objects of one page of a list, as ``read`` returns each; raises UnexpectedAnswerError where it is no list."""
        try:
            found = decode_items(self.type, data)
        except WireError as error:
            raise UnexpectedAnswerError(f"{self.plural}: {error}") from error
        return [self._undecodable(*item) if isinstance(item, Misfit) else self._known(item, b"{}") for item in found]

    def list_meta(self, data: bytes) -> ListMeta:
        """How the list goes on after this page, and its resource version; raises UnexpectedAnswerError."""
        try:
            return list_meta(data)
        except WireError as error:
            raise UnexpectedAnswerError(f"{self.plural}: {error}") from error

    def list_start(self, data: bytes) -> t.Optional[ListMeta]:
        """``list_meta`` of the first bytes of a page, None where these do not tell; raises UnexpectedAnswerError."""
        try:
            return list_start(data)
        except WireError as error:
            raise UnexpectedAnswerError(f"{self.plural}: {error}") from error

    def _known(self, item: t.Any, data: bytes) -> t.Any:
        """The object; what has neither uid nor name is no object that anything could refer to, and each quantity has to be one."""
        if not (item.metadata.uid or item.metadata.name):
            return self._undecodable(data, "it has neither uid nor name")
        if self.type not in CHECKED_WHEN_SHARED:
            try:
                check_amounts(item)
            except QuantityError as error:
                return as_undecodable(self.kind, item, str(error))
        return self._named(item)

    def _named(self, item: t.Any) -> t.Any:
        """The object with its kind, which the items of a list do not carry."""
        if self.type is objects.Workload:
            force_setattr(item, "kind", self.kind)
        return item

    def _undecodable(self, data: bytes, error: t.Union[WireError, str]) -> t.Any:
        # Several kinds share one struct, and people know the kind.
        message = str(error).replace(f" as {self.type.__name__}:", f" as {self.kind}:", 1)
        found = read_undecodable(self.kind, data, message)
        return stand_in(found) if self.type is objects.Pod else found

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of the collection, of the collection in one namespace, or of an object."""
        parts = [self.prefix]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
            if self.part:
                parts.append(self.part)
        return "/".join(parts)


NODES = Resource("/api/v1", "nodes", "Node", objects.Node, namespaced=False)
PODS = Resource("/api/v1", "pods", "Pod", objects.Pod)
POD_STATUS = PODS._replace(part="status")
NAMESPACES = Resource("/api/v1", "namespaces", "Namespace", objects.Namespace, namespaced=False)
QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota", objects.ResourceQuota)
CLAIMS = Resource("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", objects.PersistentVolumeClaim)
LIMIT_RANGES = Resource("/api/v1", "limitranges", "LimitRange", objects.LimitRange)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments", "Deployment", objects.Workload)
STATEFUL_SETS = Resource("/apis/apps/v1", "statefulsets", "StatefulSet", objects.Workload)
REPLICA_SETS = Resource("/apis/apps/v1", "replicasets", "ReplicaSet", objects.Workload)
BUDGETS = Resource("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", objects.PodDisruptionBudget)
AUTOSCALERS = Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", objects.HorizontalPodAutoscaler)
VOLUMES = Resource("/api/v1", "persistentvolumes", "PersistentVolume", storage.PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", storage.StorageClass, namespaced=False)
CSI_NODES = Resource("/apis/storage.k8s.io/v1", "csinodes", "CSINode", storage.CSINode, namespaced=False)
CSI_DRIVERS = Resource("/apis/storage.k8s.io/v1", "csidrivers", "CSIDriver", storage.CSIDriver, namespaced=False)
CSI_CAPACITIES = Resource("/apis/storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", storage.CSIStorageCapacity)
VOLUME_ATTACHMENTS = Resource(
    "/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", storage.VolumeAttachment, namespaced=False
)
DEVICE_CLASSES = Resource("/apis/resource.k8s.io/v1", "deviceclasses", "DeviceClass", objects.DeviceClass, namespaced=False)
EVENTS = Resource("/api/v1", "events", "Event", records.Event)
CONFIG_MAPS = Resource("/api/v1", "configmaps", "ConfigMap", records.ConfigMap)
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases", "Lease", records.Lease)
JOBS = Resource("/apis/batch/v1", "jobs", "Job", objects.Job)

WORKLOADS: dict[str, Resource] = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS}
