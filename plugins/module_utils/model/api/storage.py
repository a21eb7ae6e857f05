# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Claims, volumes and the other storage objects of the cluster (core/v1 and storage.k8s.io/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, LabelSelector, ObjectMeta, ResourceList
from .node import NodeSelector
from .pod import PodStatus
from .volume import PersistentVolumeClaimSpec


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PodStatus = field(default_factory=PodStatus)


BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS_ANNOTATIONS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

MIGRATED_DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The CSI driver for whose limits the volumes of an in-tree plugin count (csi-translation-lib, ``nodevolumelimits/utils.go``)."""

_PLUGIN_OF_SOURCE = {
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "azure_disk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "portworx_volume": "kubernetes.io/portworx-volume",
}


class ClaimReference(ApiStruct, frozen=True):
    """The claim that a volume is bound to or reserved for. Without a uid the volume is reserved for a claim that may not exist yet."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """The nodes that can access a volume."""

    required: t.Optional[NodeSelector] = None


class CSIVolumeSource(ApiStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """Size, storage class and node affinity of a volume. Of in-tree volume sources only the presence is used."""

    capacity: t.Optional[ResourceList] = None
    access_modes: t.Optional[tuple[str, ...]] = None
    claim_ref: t.Optional[ClaimReference] = None
    storage_class_name: str = ""
    volume_attributes_class_name: t.Optional[str] = None
    volume_mode: t.Optional[str] = None
    node_affinity: t.Optional[VolumeNodeAffinity] = None
    host_path: t.Optional[dict[str, t.Any]] = None
    nfs: t.Optional[dict[str, t.Any]] = None
    csi: t.Optional[CSIVolumeSource] = None
    gce_persistent_disk: t.Optional[dict[str, t.Any]] = None
    aws_elastic_block_store: t.Optional[dict[str, t.Any]] = None
    azure_disk: t.Optional[dict[str, t.Any]] = None
    cinder: t.Optional[dict[str, t.Any]] = None
    portworx_volume: t.Optional[dict[str, t.Any]] = None


class PersistentVolume(ApiStruct, frozen=True):
    """A PersistentVolume."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def name(self) -> str:
        """Return the volume's name. Claims refer to the volume by it."""
        return self.metadata.name


class TopologySelectorLabelRequirement(ApiStruct, frozen=True):
    """A label that must have one of the values."""

    key: str = ""
    values: t.Optional[tuple[str, ...]] = None


class TopologySelectorTerm(ApiStruct, frozen=True):
    """Labels that must all match. A term without labels matches no node."""

    match_label_expressions: t.Optional[tuple[TopologySelectorLabelRequirement, ...]] = None


class StorageClass(ApiStruct, frozen=True):
    """A StorageClass."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: t.Optional[tuple[TopologySelectorTerm, ...]] = None


class VolumeNodeResources(ApiStruct, frozen=True):
    """The number of volumes of a driver that a node can attach."""

    count: t.Optional[int] = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: t.Optional[VolumeNodeResources] = None


class CSINodeSpec(ApiStruct, frozen=True):
    """The CSI drivers on a node."""

    drivers: t.Optional[tuple[CSINodeDriver, ...]] = None


class CSINode(ApiStruct, frozen=True):
    """A CSINode. It has the name of its node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(ApiStruct, frozen=True):
    """``storage_capacity`` is true if the scheduler checks the capacity that the driver publishes.

    ``attach_required`` is false if its volumes are mounted without being attached to a node. None means true.
    """

    attach_required: t.Optional[bool] = None
    storage_capacity: t.Optional[bool] = None


class CSIDriver(ApiStruct, frozen=True):
    """A CSIDriver. Its name is the name of the provisioner."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(ApiStruct, frozen=True):
    """The capacity for new volumes of a storage class on the nodes that ``node_topology`` selects."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    storage_class_name: str = ""
    node_topology: t.Optional[LabelSelector] = None
    capacity: t.Optional[str] = None
    maximum_volume_size: t.Optional[str] = None


class VolumeAttachmentSource(ApiStruct, frozen=True):
    """The volume of an attachment."""

    persistent_volume_name: t.Optional[str] = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """The attached volume, its node and its driver."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(ApiStruct, frozen=True):
    """A VolumeAttachment."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)


class Storage(t.NamedTuple):
    """The storage objects of the cluster that were read.

    ``unreadable``: plurals of the resources that may not be read. They are empty here. ``claim_namespaces``: the namespaces whose claims
    were read. None means all namespaces.
    """

    volumes: tuple[PersistentVolume, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    nodes: tuple[CSINode, ...] = ()
    drivers: tuple[CSIDriver, ...] = ()
    capacities: tuple[CSIStorageCapacity, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    unreadable: frozenset[str] = frozenset()
    claim_namespaces: t.Optional[frozenset[str]] = None


def class_of_claim(claim: PersistentVolumeClaim) -> str | None:
    """Return the claim's storage class (component-helpers ``storage/volume``).

    An empty text requests a volume without a class. None means that the claim does not name a class.
    """
    annotated = (claim.metadata.annotations or {}).get(_BETA_CLASS)
    return claim.spec.storage_class_name if annotated is None else annotated


def class_of_volume(volume: PersistentVolume) -> str:
    """Return the volume's storage class. It is empty if the volume has none."""
    return (volume.metadata.annotations or {}).get(_BETA_CLASS, volume.spec.storage_class_name)


def in_tree_plugin(source: t.Any) -> str:
    """Return the plugin of the volume if a CSI driver takes it over. Return an empty text for any other volume.

    ``source``: a volume of a pod, or the spec of a PersistentVolume.
    """
    return next((plugin for name, plugin in _PLUGIN_OF_SOURCE.items() if getattr(source, name) is not None), "")
