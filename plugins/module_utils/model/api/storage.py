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
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimReference(ApiStruct, frozen=True):
    """The claim that a volume is for; without a uid it is reserved for one that may not exist yet."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """The nodes from which a volume can be reached."""

    required: t.Optional[NodeSelector] = None


class CSIVolumeSource(ApiStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """Size, class and place of a volume. Of disks that drivers have taken over only the presence counts."""

    capacity: t.Optional[ResourceList] = None
    access_modes: t.Optional[tuple[str, ...]] = None
    claim_ref: t.Optional[ClaimReference] = None
    storage_class_name: str = ""
    volume_attributes_class_name: t.Optional[str] = None
    volume_mode: t.Optional[str] = None
    node_affinity: t.Optional[VolumeNodeAffinity] = None
    host_path: t.Optional[dict[str, t.Any]] = None
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
        """The volume's name, by which claims refer to it."""
        return self.metadata.name


class TopologySelectorLabelRequirement(ApiStruct, frozen=True):
    """A label that must have one of the values."""

    key: str = ""
    values: t.Optional[tuple[str, ...]] = None


class TopologySelectorTerm(ApiStruct, frozen=True):
    """Labels that must all fit; a term without any fits no node."""

    match_label_expressions: t.Optional[tuple[TopologySelectorLabelRequirement, ...]] = None


class StorageClass(ApiStruct, frozen=True):
    """A StorageClass."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: t.Optional[tuple[TopologySelectorTerm, ...]] = None


class VolumeNodeResources(ApiStruct, frozen=True):
    """How many volumes of a driver a node can attach."""

    count: t.Optional[int] = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: t.Optional[VolumeNodeResources] = None


class CSINodeSpec(ApiStruct, frozen=True):
    """The CSI drivers on a node."""

    drivers: t.Optional[tuple[CSINodeDriver, ...]] = None


class CSINode(ApiStruct, frozen=True):
    """A CSINode; it has the name of its node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(ApiStruct, frozen=True):
    """Whether the scheduler is to look at the capacity that the driver publishes."""

    storage_capacity: t.Optional[bool] = None


class CSIDriver(ApiStruct, frozen=True):
    """A CSIDriver; its name is that of the provisioner."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(ApiStruct, frozen=True):
    """Room for new volumes of a class on the nodes that the selector selects."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    storage_class_name: str = ""
    node_topology: t.Optional[LabelSelector] = None
    capacity: t.Optional[str] = None
    maximum_volume_size: t.Optional[str] = None


class VolumeAttachmentSource(ApiStruct, frozen=True):
    """The volume of an attachment."""

    persistent_volume_name: t.Optional[str] = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """What is attached where, and by which driver."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(ApiStruct, frozen=True):
    """A VolumeAttachment."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)


class Storage(t.NamedTuple):
    """What was read of the cluster's storage.

    ``unreadable``: plurals of what may not be read, which then is empty here. ``claim_namespaces``: those whose claims were read, None
    for all of them.
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
    """The claim's storage class, empty for the volumes of no class; None where it names none (component-helpers ``storage/volume``)."""
    annotated = (claim.metadata.annotations or {}).get(_BETA_CLASS)
    return claim.spec.storage_class_name if annotated is None else annotated


def class_of_volume(volume: PersistentVolume) -> str:
    """The volume's storage class; empty for none."""
    return (volume.metadata.annotations or {}).get(_BETA_CLASS, volume.spec.storage_class_name)
