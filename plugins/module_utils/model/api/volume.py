# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Volumes of pods, and the claims that are made for them (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, LabelSelector, ObjectMeta, ResourceList


class StorageRequirements(ApiStruct, frozen=True):
    """How much storage a claim asks for."""

    requests: t.Optional[ResourceList] = None


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """What a claim asks for, and the volume it is bound to; no storage class and an empty one are not the same."""

    access_modes: t.Optional[tuple[str, ...]] = None
    resources: StorageRequirements = field(default_factory=StorageRequirements)
    selector: t.Optional[LabelSelector] = None
    storage_class_name: t.Optional[str] = None
    volume_attributes_class_name: t.Optional[str] = None
    volume_mode: t.Optional[str] = None
    volume_name: str = ""


class VolumeClaimTemplate(ApiStruct, frozen=True):
    """A claim that is made for each pod, of a StatefulSet or of an ephemeral volume."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class ClaimVolumeSource(ApiStruct, frozen=True):
    """A volume that is a PersistentVolumeClaim of the pod's namespace.

    ``claim_template`` is never on the wire: it is what a StatefulSet makes the claim of where there is none yet.
    """

    claim_name: str = ""
    claim_template: t.Optional[VolumeClaimTemplate] = None


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """A volume whose claim comes and goes with the pod."""

    volume_claim_template: t.Optional[VolumeClaimTemplate] = None


class GCEPersistentDisk(ApiStruct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = field(default="", name="volumeID")


class RBD(ApiStruct, frozen=True):
    """A block image of Ceph."""

    monitors: t.Optional[tuple[str, ...]] = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ISCSI(ApiStruct, frozen=True):
    """An iSCSI disk, known by its qualified name."""

    iqn: str = ""
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """A volume; the sources that bind a pod to nodes are named, the rest (inline CSI volumes, too) are left out."""

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

    @property
    def local(self) -> bool:
        """Its content is on the node and stays there, or goes, when the pod leaves."""
        return self.empty_dir is not None or self.host_path is not None
