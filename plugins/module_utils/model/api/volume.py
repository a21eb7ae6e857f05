# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Volumes of pods, and the templates of their claims (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, LabelSelector, ObjectMeta, ResourceList


class StorageRequirements(ApiStruct, frozen=True):
    """The amount of storage that a claim requests."""

    requests: t.Optional[ResourceList] = None


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """The requirements of a claim, and the volume that it is bound to. An absent storage class and an empty one have different meanings."""

    access_modes: t.Optional[tuple[str, ...]] = None
    resources: StorageRequirements = field(default_factory=StorageRequirements)
    selector: t.Optional[LabelSelector] = None
    storage_class_name: t.Optional[str] = None
    volume_attributes_class_name: t.Optional[str] = None
    volume_mode: t.Optional[str] = None
    volume_name: str = ""


class VolumeClaimTemplate(ApiStruct, frozen=True):
    """The template of the claims of a StatefulSet or of an ephemeral volume. Each pod gets its own claim."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class ClaimVolumeSource(ApiStruct, frozen=True):
    """A volume that is a PersistentVolumeClaim in the pod's namespace.

    ``claim_template`` is not part of the API. It is the template that a StatefulSet uses if the claim does not exist yet.
    """

    claim_name: str = ""
    claim_template: t.Optional[VolumeClaimTemplate] = None


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """A volume whose claim is created and deleted with the pod."""

    volume_claim_template: t.Optional[VolumeClaimTemplate] = None


class GCEPersistentDisk(ApiStruct, frozen=True):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct, frozen=True):
    """An Amazon Elastic Block Store disk."""

    volume_id: str = field(default="", name="volumeID")


class RBD(ApiStruct, frozen=True):
    """A Ceph block image."""

    monitors: t.Optional[tuple[str, ...]] = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ISCSI(ApiStruct, frozen=True):
    """An iSCSI disk. ``iqn`` is its qualified name."""

    iqn: str = ""
    read_only: bool = False


class ImageVolumeSource(ApiStruct, frozen=True):
    """A volume with the content of an image."""

    reference: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume of a pod. Other sources than those of the fields, such as inline CSI volumes, are not read.

    An image can raise the score of a node. It does not bind the pod to nodes.
    """

    name: str = ""
    persistent_volume_claim: t.Optional[ClaimVolumeSource] = None
    ephemeral: t.Optional[EphemeralVolumeSource] = None
    gce_persistent_disk: t.Optional[GCEPersistentDisk] = None
    aws_elastic_block_store: t.Optional[AWSElasticBlockStore] = None
    azure_disk: t.Optional[dict[str, t.Any]] = None
    cinder: t.Optional[dict[str, t.Any]] = None
    portworx_volume: t.Optional[dict[str, t.Any]] = None
    rbd: t.Optional[RBD] = None
    iscsi: t.Optional[ISCSI] = None
    empty_dir: t.Optional[dict[str, t.Any]] = None
    host_path: t.Optional[dict[str, t.Any]] = None
    image: t.Optional[ImageVolumeSource] = None

    @property
    def local(self) -> bool:
        """Return whether the data is on the node. When the pod is deleted, an emptyDir is deleted and a hostPath stays on the node."""
        return self.empty_dir is not None or self.host_path is not None
